#include "common/kv/retained_prefixes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kv/layout.h"

namespace baton {

RetainedPrefixes::RetainedPrefixes(int block_size, const Bounds& bounds, BlockPool& pool)
    : block_size_(static_cast<size_t>(block_size)), bounds_(bounds), pool_(pool) {
  BATON_CHECK(bounds_.max_prefixes > 0, "there is room for one");
}

void RetainedPrefixes::Retain(const std::string& request, Prefix prefix,
                              const std::vector<BlockPool::Block>& blocks, absl::Time now) {
  BATON_CHECK(prefix.token_ids.size() % kKvPageTokens == 0, "only whole pages are retained");
  Forget(request);
  const size_t end = (prefix.token_ids.size() + block_size_ - 1) / block_size_;
  if (end <= prefix.first_block) return;
  BATON_CHECK(end <= blocks.size(), "the blocks reach the prefix's end");
  Entry entry{.prefix = std::move(prefix), .blocks = {}, .expiry = now + bounds_.lifetime};
  for (size_t index = entry.prefix.first_block; index < end; ++index) {
    const int32_t block = blocks[index].id();
    BATON_CHECK(pool_.reference_count(block) == 1, "others use what one attempt received");
    pool_.Keep(block);
    entry.blocks.push_back(pool_.Ref(block));
  }
  if (requests_.size() == bounds_.max_prefixes) Forget(Oldest());
  requests_.emplace(request, std::move(entry));
}

RetainedPrefixes::Match RetainedPrefixes::Find(const std::string& request,
                                               const std::string& numerics,
                                               absl::Span<const int32_t> token_ids,
                                               size_t shared_blocks) const {
  Match match;
  const auto found = requests_.find(request);
  if (found == requests_.end() || token_ids.empty()) return match;
  const Prefix& prefix = found->second.prefix;
  if (prefix.numerics != numerics || shared_blocks < prefix.first_block) return match;
  const size_t most = std::min(prefix.token_ids.size(), token_ids.size() - 1);
  const auto end = prefix.token_ids.begin() + static_cast<std::ptrdiff_t>(most);
  const auto differs = std::mismatch(prefix.token_ids.begin(), end, token_ids.begin()).first;
  auto tokens = static_cast<size_t>(differs - prefix.token_ids.begin());
  tokens -= tokens % kKvPageTokens;
  for (size_t index = shared_blocks; index * block_size_ < tokens; ++index) {
    const BlockRef& held = found->second.blocks[index - prefix.first_block];
    if (!pool_.Lives(held)) {
      tokens = index * block_size_;
      break;
    }
    match.blocks.push_back(held.id);
  }
  if (!match.blocks.empty()) match.tokens = static_cast<int>(tokens);
  return match;
}

void RetainedPrefixes::Forget(const std::string& request) {
  if (const auto found = requests_.find(request); found != requests_.end()) Forget(found);
}

void RetainedPrefixes::ForgetExpired(absl::Time now) {
  while (NextExpiry() <= now) Forget(Oldest());
}

void RetainedPrefixes::ForgetAll() {
  while (!requests_.empty()) Forget(requests_.begin());
}

absl::Time RetainedPrefixes::NextExpiry() const {
  return requests_.empty() ? absl::InfiniteFuture() : Oldest()->second.expiry;
}

RetainedPrefixes::Entries::const_iterator RetainedPrefixes::Oldest() const {
  return std::min_element(requests_.begin(), requests_.end(), [](const auto& a, const auto& b) {
    return a.second.expiry < b.second.expiry;
  });
}

void RetainedPrefixes::Forget(Entries::const_iterator entry) {
  for (const BlockRef& held : entry->second.blocks) {
    if (pool_.Lives(held)) pool_.StopKeeping(held.id);
  }
  requests_.erase(entry);
}

}  // namespace baton
