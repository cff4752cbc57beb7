#include "common/kv/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace baton {

PrefixCache::PrefixCache(const std::string& identity, int block_size, BlockPool& pool,
                         PrefixHashFunction hash)
    : block_size_(static_cast<size_t>(block_size)),
      pool_(pool),
      hash_(hash),
      root_(PrefixRoot(identity, hash)),
      entries_(static_cast<size_t>(pool.total_blocks())) {
  pool_.OnEviction([this](int32_t block) { Forget(block); });
}

std::vector<int32_t> PrefixCache::Find(absl::Span<const int32_t> token_ids,
                                       const std::string& salt) const {
  std::vector<int32_t> found;
  Hash128 hash = root_;
  uint64_t parent = 0;
  while ((found.size() + 1) * block_size_ < token_ids.size()) {
    const std::string content = Content(token_ids, salt, found.size());
    hash = Link(hash, token_ids, salt, found.size(), nullptr);
    const int32_t block = Lookup(hash, parent, content);
    if (block < 0) break;
    parent = At(block).serial;
    found.push_back(block);
  }
  return found;
}

BlockPool::Block PrefixCache::Insert(absl::Span<const int32_t> token_ids, const std::string& salt,
                                     const std::vector<BlockPool::Block>& blocks, size_t index) {
  BATON_CHECK((index + 1) * block_size_ <= token_ids.size(), "only whole blocks are held");
  const BlockPool::Block& own = blocks[index];
  Hash128 hash = root_;
  uint64_t parent = 0;
  if (index > 0) {
    const int32_t before = blocks[index - 1].id();
    if (!Holds(before)) return own.Share();
    hash = At(before).hash;
    parent = At(before).serial;
  }
  std::string content = Content(token_ids, salt, index);
  std::vector<uint64_t> pages;
  hash = Link(hash, token_ids, salt, index, &pages);
  const int32_t same = Lookup(hash, parent, content);
  if (same >= 0 && pool_.reference_count(same) > 0) return pool_.Share(same);
  // A free block that holds the same tokens hands its serial on, so that the blocks that continue
  // it are still found.
  const uint64_t serial = same >= 0 ? At(same).serial : ++last_serial_;
  if (const auto other = blocks_.find(hash); other != blocks_.end()) Forget(other->second);
  Forget(own.id());
  pool_.Keep(own.id());
  blocks_[hash] = own.id();
  for (const uint64_t page : pages) pages_.Add(page);
  entries_[static_cast<size_t>(own.id())] = {.serial = serial,
                                             .parent = parent,
                                             .hash = hash,
                                             .content = std::move(content),
                                             .pages = std::move(pages)};
  return own.Share();
}

void PrefixCache::Forget(int32_t block) {
  if (!Holds(block)) return;
  const Entry& entry = At(block);
  pool_.StopKeeping(block);
  for (const uint64_t page : entry.pages) pages_.Remove(page);
  blocks_.erase(entry.hash);
  entries_[static_cast<size_t>(block)] = Entry();
}

void PrefixCache::ForgetAll() {
  for (int32_t block = 0; block < static_cast<int32_t>(entries_.size()); ++block) Forget(block);
}

int32_t PrefixCache::Lookup(const Hash128& hash, uint64_t parent,
                            const std::string& content) const {
  const auto found = blocks_.find(hash);
  if (found == blocks_.end()) return -1;
  const Entry& entry = At(found->second);
  return entry.parent == parent && entry.content == content ? found->second : -1;
}

// The tokens' bytes, and for the first block of a sequence the salt too, so that it is compared.
std::string PrefixCache::Content(absl::Span<const int32_t> token_ids, const std::string& salt,
                                 size_t index) const {
  const absl::Span<const int32_t> tokens = token_ids.subspan(index * block_size_, block_size_);
  std::string content(tokens.size() * sizeof(int32_t), '\0');
  std::memcpy(content.data(), tokens.data(), content.size());
  if (index == 0) content += salt;
  return content;
}

Hash128 PrefixCache::Link(Hash128 hash, absl::Span<const int32_t> token_ids,
                          const std::string& salt, size_t index,
                          std::vector<uint64_t>* pages) const {
  const size_t end = (index + 1) * block_size_;
  for (size_t at = index * block_size_; at < end; at += kPrefixPageTokens) {
    const auto page = token_ids.subspan(at, std::min(kPrefixPageTokens, end - at));
    hash = PrefixLink(hash, page, at == 0 ? salt : std::string(), hash_);
    if (pages != nullptr) pages->push_back(hash.high);
  }
  return hash;
}

}  // namespace baton
