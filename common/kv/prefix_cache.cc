#include "common/kv/prefix_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/kv/served_rows.h"

namespace baton {

PrefixCache::PrefixCache(const std::string& identity, const KvLayout& layout, BlockPool& pool,
                         PrefixHashFunction hash)
    : layout_(layout),
      block_size_(static_cast<size_t>(layout.block_size)),
      groups_(static_cast<size_t>(layout.groups.count())),
      pool_(pool),
      hash_(hash),
      root_(PrefixRoot(identity, hash)),
      entries_(static_cast<size_t>(pool.total_blocks())),
      places_(entries_.size()) {
  for (int group = 0; group < layout.groups.count(); ++group) {
    const int window = layout.groups.window(group);
    const auto begin = static_cast<size_t>(group);
    if (kinds_.empty() || kinds_.back().window != window) kinds_.push_back({window, begin, begin});
    ++kinds_.back().end;
  }
  pool_.OnEviction([this](int32_t block) { Forget(block); });
}

std::vector<int32_t> PrefixCache::Find(absl::Span<const int32_t> token_ids, const std::string& salt,
                                       const KvNeed& need) const {
  ServedRows rows(layout_, need);
  int served = 0;  // tokens
  Hash128 hash = root_;
  uint64_t parent = 0;
  for (size_t row = 0; (row + 1) * block_size_ < token_ids.size(); ++row) {
    const std::string content = Content(token_ids, salt, row);
    hash = Link(hash, token_ids, salt, row, nullptr);
    const int32_t anchor = Lookup(hash, parent, content);
    if (anchor == kNoBlock) break;
    parent = At(anchor).serial;
    rows.Add(At(anchor).blocks);
    const int end = static_cast<int>(row + 1) * layout_.block_size;
    if (rows.Serve(end)) served = end;
  }
  return rows.Blocks(served);
}

std::vector<PrefixCache::Replaced> PrefixCache::Insert(absl::Span<const int32_t> token_ids,
                                                       const std::string& salt,
                                                       std::vector<BlockPool::Block>& blocks,
                                                       size_t row, int handed_off) {
  BATON_CHECK((row + 1) * block_size_ <= token_ids.size(), "only whole blocks are held");
  const auto is_whole = [&](size_t group) {
    const int first = layout_.groups.FirstHandedOff(static_cast<int>(group), handed_off);
    return static_cast<int>(row) * layout_.block_size >= first;
  };
  std::vector<Replaced> replaced;
  Entry entry;
  entry.hash = root_;
  if (row > 0) {
    const int32_t before = blocks[(row - 1) * groups_].id();
    if (!Anchors(before)) return replaced;
    entry.hash = At(before).hash;
    entry.parent = At(before).serial;
  }
  entry.content = Content(token_ids, salt, row);
  entry.hash = Link(entry.hash, token_ids, salt, row, &entry.pages);
  const int32_t same = Lookup(entry.hash, entry.parent, entry.content);
  const auto share = [&](size_t group, int32_t used) {
    BlockPool::Block& own = blocks[row * groups_ + group];
    if (own.id() == used) return;
    replaced.push_back({static_cast<int>(group), std::exchange(own, pool_.Share(used))});
  };
  if (same != kNoBlock && pool_.reference_count(same) > 0) {
    share(0, same);
  } else {
    Anchor(blocks[row * groups_].id(), std::move(entry));
  }
  const int32_t anchor = blocks[row * groups_].id();
  for (size_t group = 1; group < groups_; ++group) {
    const BlockPool::Block& own = blocks[row * groups_ + group];
    if (own.empty() || !is_whole(group)) continue;
    const int32_t held = At(anchor).blocks[group];
    if (held != kNoBlock && pool_.reference_count(held) > 0) {
      share(group, held);
    } else {
      if (held != kNoBlock) Detach(held);
      Forget(own.id());
      Attach(anchor, group, own.id());
    }
  }
  return replaced;
}

void PrefixCache::Anchor(int32_t own, Entry row) {
  const auto before = anchors_.find(row.hash);
  const int32_t same = Lookup(row.hash, row.parent, row.content);
  if (same == kNoBlock) {
    if (before != anchors_.end()) Forget(before->second);
    Forget(own);
    row.serial = ++last_serial_;
    row.blocks.assign(groups_, kNoBlock);
    anchors_[row.hash] = own;
    At(own) = std::move(row);
    return Attach(own, 0, own);
  }
  // A free block that holds the same tokens hands its row on, so that the row's other blocks and
  // the rows that continue it are still found.
  Forget(own);
  pool_.Keep(own);
  pool_.StopKeeping(same);
  PlaceOf(same) = {};
  Entry& entry = At(own) = std::exchange(At(same), Entry());
  entry.blocks[0] = own;
  before->second = own;
  for (size_t group = 0; group < groups_; ++group) {
    if (entry.blocks[group] != kNoBlock) PlaceOf(entry.blocks[group]) = {own, group};
  }
}

void PrefixCache::Attach(int32_t anchor, size_t group, int32_t block) {
  pool_.Keep(block);
  PlaceOf(block) = {anchor, group};
  At(anchor).blocks[group] = block;
  ForPages(At(anchor), group, &PrefixPages::Add);
}

void PrefixCache::Detach(int32_t block) {
  const Place place = std::exchange(PlaceOf(block), Place());
  Entry& entry = At(place.anchor);
  ForPages(entry, place.group, &PrefixPages::Remove);
  entry.blocks[place.group] = kNoBlock;
  pool_.StopKeeping(block);
}

void PrefixCache::ForPages(const Entry& entry, size_t group, void (PrefixPages::*tell)(uint64_t)) {
  const auto kind =
      std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& of) { return group < of.end; });
  const auto begin = entry.blocks.begin();
  if (std::count(begin + static_cast<std::ptrdiff_t>(kind->begin),
                 begin + static_cast<std::ptrdiff_t>(kind->end), kNoBlock) > 0) {
    return;
  }
  const bool keeps_most = kind == kinds_.begin();
  for (const uint64_t page : entry.pages) {
    (pages_.*tell)(keeps_most ? page : PrefixWindowPage(page, kind->window));
  }
}

void PrefixCache::Forget(int32_t block) {
  const int32_t anchor = PlaceOf(block).anchor;
  if (anchor == kNoBlock) return;
  if (block != anchor) return Detach(block);
  const std::vector<int32_t> blocks = At(anchor).blocks;
  for (const int32_t held : blocks) {
    if (held != kNoBlock) Detach(held);
  }
  anchors_.erase(At(anchor).hash);
  At(anchor) = Entry();
}

void PrefixCache::ForgetAll() {
  // tests/planted_bugs: forgotten_prefix_found
  for (int32_t block = 0; block < static_cast<int32_t>(entries_.size()); ++block) Forget(block);
}

int32_t PrefixCache::Lookup(const Hash128& hash, uint64_t parent,
                            const std::string& content) const {
  const auto found = anchors_.find(hash);
  if (found == anchors_.end()) return kNoBlock;
  const Entry& entry = At(found->second);
  return entry.parent == parent && entry.content == content ? found->second : kNoBlock;
}

// The tokens' bytes, and for the first row of a sequence the salt too, so that it is compared.
std::string PrefixCache::Content(absl::Span<const int32_t> token_ids, const std::string& salt,
                                 size_t row) const {
  const absl::Span<const int32_t> tokens = token_ids.subspan(row * block_size_, block_size_);
  std::string content(tokens.size() * sizeof(int32_t), '\0');
  std::memcpy(content.data(), tokens.data(), content.size());
  if (row == 0) content += salt;
  return content;
}

Hash128 PrefixCache::Link(Hash128 hash, absl::Span<const int32_t> token_ids,
                          const std::string& salt, size_t row, std::vector<uint64_t>* pages) const {
  const size_t end = (row + 1) * block_size_;
  for (size_t at = row * block_size_; at < end; at += kPrefixPageTokens) {
    const auto page = token_ids.subspan(at, std::min(kPrefixPageTokens, end - at));
    hash = PrefixLink(hash, page, at == 0 ? salt : std::string(), hash_);
    if (pages != nullptr) pages->push_back(hash.high);
  }
  return hash;
}

}  // namespace baton
