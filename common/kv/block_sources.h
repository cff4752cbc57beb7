// Remembers the writers of a pool's blocks.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/layout.h"

namespace baton {

// Remembers who wrote each block in its present life: the kv_source of a sequence whose KV came
// from elsewhere. A block that one broken push began and another completed was written by both.
// A block that was computed here has no writer; of one that a sequence went on in, what came from
// elsewhere is only a part.
//
// Does no I/O. Thread rule: one thread, the pool's. Borrows the pool.
class BlockSources {
 public:
  // Reads only block_size and groups of the layout.
  BlockSources(const KvLayout& layout, const BlockPool& pool);

  // `name` is about to write the tokens from `first_token` on, of a sequence that has `held`: its
  // block table, in which blocks may be empty.
  void Opened(const std::vector<BlockPool::Block>& held, int first_token, const std::string& name);
  // Its last rows were computed here.
  void ContinuedHere(const BlockPool::Block& block);
  // `to` is a copy of `from`.
  void Copied(const BlockPool::Block& from, const BlockPool::Block& to);

  // All who wrote the block or a part of it. REQUIRES: the block is not empty.
  std::set<std::string> NamesOf(const BlockPool::Block& block) const;
  // Returns the writer of the block. Empty: none, or more than one.
  std::string Of(const BlockPool::Block& block) const;
  // Whether `name` wrote one of the blocks or a part of one; with an empty name, whether Of is
  // empty for one of them. Empty blocks do not count.
  bool AnyFrom(const std::vector<BlockPool::Block>& blocks, const std::string& name) const;

 private:
  struct Entry {
    uint32_t generation = 0;  // the block's life that the names belong to
    std::set<std::string> names;
  };
  void Set(const BlockPool::Block& block, std::set<std::string> names);

  const int block_size_;  // tokens of a block
  const int groups_;      // entries of a block table for each block_size tokens
  const BlockPool& pool_;
  std::vector<Entry> entries_;  // [block]
};

}  // namespace baton
