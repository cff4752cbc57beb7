// Which blocks hold the KV of which tokens: sequences that begin alike share what is computed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/base/hash.h"
#include "common/base/prefix_hash.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_pages.h"

namespace baton {

// An index over a pool's blocks, by whole blocks. A block is found by a 128-bit chain of hashes
// over the model's identity and numerics, the salt and all tokens up to its end, a link for each
// page of 16; what the hashes stand for is compared on every hit, so a collision costs a hit and
// never serves another's KV.
//
// It holds no reference. A held block that nobody uses is free and kept (see BlockPool), and its
// entry ends when the pool gives it out anew. Whoever uses a held block uses all before it, and
// gives back the last block first: so a block is evicted before the one that it continues (least
// recently used, leaves only).
//
// Thread rule: one thread, the pool's; pages() has its own. Borrows the pool, which tells it of
// evictions.
class PrefixCache {
 public:
  // `identity`: whatever else the bytes of KV depend on beside the tokens.
  PrefixCache(const std::string& identity, int block_size, BlockPool& pool,
              PrefixHashFunction hash = ChainHash);

  // The blocks that hold the longest prefix of `token_ids`, in order; never the last token. They
  // are to be taken before the pool gives out anything else.
  std::vector<int32_t> Find(absl::Span<const int32_t> token_ids, const std::string& salt) const;

  // `blocks[index]` now holds the KV of its tokens. Gives the block to use for them from here on:
  // another one if somebody uses one that holds the same bytes already. Where the block before it
  // is not held, nothing is entered. REQUIRES: blocks[0, index) are what Find or earlier calls
  // gave; token_ids reach the block's end.
  BlockPool::Block Insert(absl::Span<const int32_t> token_ids, const std::string& salt,
                          const std::vector<BlockPool::Block>& blocks, size_t index);

  // The block's content is not to be found any more, nor what continues it.
  void Forget(int32_t block);

  // The pages of all blocks that are held, some of which are perhaps found no more.
  PrefixPages& pages() { return pages_; }

 private:
  struct Entry {
    uint64_t serial = 0;  // names the entry for ever; 0: none
    uint64_t parent = 0;  // serial of the entry that it continues; 0: begins a sequence
    uint32_t generation = 0;
    Hash128 hash;
    std::string content;          // what the hash adds to its parent's
    std::vector<uint64_t> pages;  // announced
  };

  // Whether the entry's block is still what it was entered for.
  bool Holds(int32_t block) const;
  // The block of that entry; -1 where nothing is held.
  int32_t Lookup(const Hash128& hash, uint64_t parent, const std::string& content) const;
  std::string Content(absl::Span<const int32_t> token_ids, const std::string& salt,
                      size_t index) const;
  // The chain's link at the block's end, behind the one at its beginning; the links' first words to
  // `pages` unless null.
  Hash128 Link(Hash128 hash, absl::Span<const int32_t> token_ids, const std::string& salt,
               size_t index, std::vector<uint64_t>* pages) const;
  const Entry& At(int32_t block) const { return entries_[static_cast<size_t>(block)]; }

  const size_t block_size_;  // tokens
  BlockPool& pool_;
  const PrefixHashFunction hash_;
  const Hash128 root_;
  uint64_t last_serial_ = 0;
  std::vector<Entry> entries_;         // [block]; one that does not hold ends with the next
  std::map<Hash128, int32_t> blocks_;  // [hash of an entry]: its block
  PrefixPages pages_;
};

}  // namespace baton
