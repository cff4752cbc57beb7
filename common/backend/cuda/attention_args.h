// What every attention kernel is called with, and where it finds keys and values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/cuda/attention.h"

namespace baton {

struct AttentionArgs {
  CudaPass pass;
  AttentionWork work;
  Tensor queries;  // [rows, heads * head_dim]
  KvLayerView cache;
  Tensor out;  // [rows, heads * head_dim]
  AttentionScratch scratch;
  int heads;
  int group;    // query heads of a KV head
  float scale;  // log2(e) / sqrt(head_dim): scores are exponents of 2
};

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * 32;

// The blocks of the sequence that has row `row` of the pass.
__device__ inline const int32_t* BlockTable(const CudaPass& pass, int row) {
  return pass.block_tables +
         static_cast<size_t>(pass.sequence_of_row[row]) * static_cast<size_t>(pass.table_stride);
}

// The key [head_dim] of one KV head and of a token in a block; the value is
// values_offset - keys_offset further, the next token's key row_bytes().
__device__ inline const uint8_t* KeyAt(const KvLayerView& cache, int32_t block, int token_in_block,
                                       int kv_head) {
  return cache.KeyRow(block, token_in_block) +
         static_cast<size_t>(kv_head * cache.head_dim) * cache.element_bytes();
}

}  // namespace baton
