// Finds the blocks that hold the KV of given tokens, so that sequences that begin alike share them.
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

// An index over a pool's whole blocks. A block is found by a 128-bit chain of hashes over the
// model's identity and numerics, the salt and all tokens up to the block's end; the chain has a
// link for each page of 16 tokens. Every hit compares the tokens and the salt themselves, so a
// collision of hashes costs a hit and never serves another sequence's KV.
//
// The index holds no reference. A held block that nobody uses is free and kept (see BlockPool).
// When the pool gives it out anew, the pool calls back first, and its entry ends: an entry never
// outlasts its block's life. Nobody else may stop keeping a held block: the pool would not call.
// Whoever uses a held block also uses all blocks before it, and gives back the last block first. So
// a block is evicted before the block that it continues: the least recently used one, leaves only.
//
// Thread rule: one thread, the pool's; pages() has a thread rule of its own. Borrows the pool,
// whose eviction callback it takes.
class PrefixCache {
 public:
  // `identity`: a text for everything but the tokens and the salt that the bytes of KV depend on.
  PrefixCache(const std::string& identity, int block_size, BlockPool& pool,
              PrefixHashFunction hash = ChainHash);

  // The blocks that hold the longest prefix of `token_ids`, in order. They never hold the last
  // token. The caller has to take them before the pool gives out any other block.
  std::vector<int32_t> Find(absl::Span<const int32_t> token_ids, const std::string& salt) const;

  // `blocks[index]` now holds the KV of its tokens. Enters it, and returns the block to use for
  // these tokens from here on. That is another block if a used one holds the same tokens already.
  // Where the block before it is not held, nothing is entered. REQUIRES: blocks[0, index) came from
  // Find or earlier calls; token_ids reach the block's end.
  BlockPool::Block Insert(absl::Span<const int32_t> token_ids, const std::string& salt,
                          const std::vector<BlockPool::Block>& blocks, size_t index);

  // Takes the block out of the index. The blocks that continue it are not found any more either.
  void Forget(int32_t block);

  void ForgetAll();

  // The pages of all held blocks. It may include blocks that continue a forgotten one.
  PrefixPages& pages() { return pages_; }

 private:
  struct Entry {
    uint64_t serial = 0;  // names the entry for ever; 0: the block has no entry
    uint64_t parent = 0;  // serial of the entry that this one continues; 0: begins a sequence
    Hash128 hash;
    std::string content;          // the bytes that `hash` covers beyond the parent's hash
    std::vector<uint64_t> pages;  // names of its pages, as told to pages_
  };

  // Whether the block has an entry.
  bool Holds(int32_t block) const { return At(block).serial != 0; }
  // The block whose entry has this hash, parent and content; -1 where there is none.
  int32_t Lookup(const Hash128& hash, uint64_t parent, const std::string& content) const;
  std::string Content(absl::Span<const int32_t> token_ids, const std::string& salt,
                      size_t index) const;
  // Continues the chain from `hash`, the link at the begin of block `index`, to the link at its
  // end. Appends the name of each page on the way (the link's first word) to `pages` unless null.
  Hash128 Link(Hash128 hash, absl::Span<const int32_t> token_ids, const std::string& salt,
               size_t index, std::vector<uint64_t>* pages) const;
  const Entry& At(int32_t block) const { return entries_[static_cast<size_t>(block)]; }

  const size_t block_size_;  // tokens of a block
  BlockPool& pool_;
  const PrefixHashFunction hash_;
  const Hash128 root_;
  uint64_t last_serial_ = 0;
  std::vector<Entry> entries_;         // [block]
  std::map<Hash128, int32_t> blocks_;  // blocks by the hash of their entry
  PrefixPages pages_;
};

}  // namespace baton
