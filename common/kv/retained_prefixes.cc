#include "common/kv/retained_prefixes.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kv/served_rows.h"

namespace baton {

RetainedPrefixes::RetainedPrefixes(const KvLayout& layout, const Bounds& bounds, BlockPool& pool)
    : layout_(layout),
      block_size_(static_cast<size_t>(layout.block_size)),
      groups_(static_cast<size_t>(layout.groups.count())),
      bounds_(bounds),
      pool_(pool) {
  BATON_CHECK(bounds_.max_prefixes > 0, "there is room for one");
}

void RetainedPrefixes::Retain(const std::string& request, Prefix prefix,
                              const std::vector<BlockPool::Block>& blocks, absl::Time now) {
  BATON_CHECK(prefix.token_ids.size() % kKvPageTokens == 0, "only whole pages are retained");
  BATON_CHECK(prefix.handed_off > 0 || !layout_.groups.any_window(),
              "what the layers with windows hold depends on the hand-off's length");
  Forget(request);
  const size_t end = (prefix.token_ids.size() + block_size_ - 1) / block_size_;
  if (end <= prefix.first_block) return;
  BATON_CHECK(end * groups_ <= blocks.size(), "the blocks reach the prefix's end");
  Entry entry{.prefix = std::move(prefix), .blocks = {}, .expiry = now + bounds_.lifetime};
  for (size_t index = entry.prefix.first_block * groups_; index < end * groups_; ++index) {
    if (index % groups_ != 0 && blocks[index].empty()) {
      entry.blocks.push_back({.id = kNoBlock});
      continue;
    }
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
                                               size_t shared_blocks, const KvNeed& need) const {
  const auto found = requests_.find(request);
  if (found == requests_.end() || token_ids.empty()) return {};
  const Prefix& prefix = found->second.prefix;
  if (prefix.numerics != numerics || shared_blocks < prefix.first_block) return {};
  const size_t most = std::min(prefix.token_ids.size(), token_ids.size() - 1);
  const auto end = prefix.token_ids.begin() + static_cast<std::ptrdiff_t>(most);
  const auto differs = std::mismatch(prefix.token_ids.begin(), end, token_ids.begin()).first;
  const int tokens = static_cast<int>(differs - prefix.token_ids.begin());
  ServedRows rows(layout_, need, shared_blocks);
  int served = 0;  // tokens
  int page_end = static_cast<int>(shared_blocks) * layout_.block_size + kKvPageTokens;
  for (size_t row = shared_blocks; page_end <= tokens; ++row) {
    const std::vector<int32_t> blocks = RowOf(found->second, row);
    if (blocks[0] == kNoBlock) break;
    rows.Add(blocks);
    const int row_end = std::min(static_cast<int>(row + 1) * layout_.block_size, tokens);
    for (; page_end <= row_end; page_end += kKvPageTokens) {
      if (rows.Serve(page_end) && Carried(found->second, need, shared_blocks, page_end)) {
        served = page_end;
      }
    }
  }
  if (served == 0) return {};
  return {.blocks = rows.Blocks(served), .tokens = served};
}

std::vector<int32_t> RetainedPrefixes::RowOf(const Entry& entry, size_t row) const {
  std::vector<int32_t> blocks;
  const size_t begin = (row - entry.prefix.first_block) * groups_;
  for (size_t index = begin; index < begin + groups_; ++index) {
    const BlockRef& held = entry.blocks[index];
    // tests/planted_bugs: retained_generation_not_checked
    blocks.push_back(held.id != kNoBlock && pool_.Lives(held) ? held.id : kNoBlock);
  }
  return blocks;
}

bool RetainedPrefixes::Carried(const Entry& entry, const KvNeed& need, size_t first_row,
                               int end) const {
  const KvLayerGroups& groups = layout_.groups;
  for (int group = 0; group < groups.count(); ++group) {
    const int first = std::max(groups.FirstNeeded(group, need, end),
                               static_cast<int>(first_row) * layout_.block_size);
    if (first < end && first < groups.FirstHandedOff(group, entry.prefix.handed_off)) return false;
  }
  return true;
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
    if (held.id != kNoBlock && pool_.Lives(held)) pool_.StopKeeping(held.id);
  }
  requests_.erase(entry);
}

}  // namespace baton
