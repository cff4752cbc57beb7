// What the KV of each token of each block stands for, as the plain model of shared blocks has it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "common/engine/sequence.h"
#include "tests/common/engine/plain_cache.h"

namespace baton {

class BlockContents {
 public:
  using Node = PrefixTree::Node;

  // `pool` outlives it.
  BlockContents(const BlockPool& pool, int block_size)
      : pool_(pool),
        block_size_(block_size),
        nodes_(static_cast<size_t>(pool.total_blocks()),
               std::vector<Node>(static_cast<size_t>(block_size))) {}

  Node& At(int32_t block, int token_in_block) {
    return nodes_[static_cast<size_t>(block)][static_cast<size_t>(token_in_block)];
  }
  Node& At(const Sequence& sequence, int token) {
    return At(BlockOf(sequence, token), token % block_size_);
  }
  // The sequence's tokens [first, end) are computed; the nodes of its tokens, each with `mark`.
  void Write(const Sequence& sequence, const std::vector<Node>& nodes, int first, int end,
             Node mark) {
    for (int token = first; token < end; ++token) {
      ASSERT_EQ(pool_.reference_count(BlockOf(sequence, token)), 1) << "writes where others read";
      At(sequence, token) = nodes[static_cast<size_t>(token)] + mark;
    }
  }

 private:
  int32_t BlockOf(const Sequence& sequence, int token) const {
    return sequence.blocks.table[static_cast<size_t>(token / block_size_)];
  }

  const BlockPool& pool_;
  const int block_size_;
  std::vector<std::vector<Node>> nodes_;  // [block][token]
};

}  // namespace baton
