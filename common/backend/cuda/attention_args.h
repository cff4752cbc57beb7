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
  CudaAttentionScratch scratch;
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

// Keys or values of one KV head from a token of a block on: [head_dim] of the next token are
// row_bytes further. Where they are codes `scales` is their scale, the next token's scale_bytes
// further.
struct HeadRows {
  const uint8_t* rows;
  const uint8_t* scales;
  size_t row_bytes;
  size_t scale_bytes;

  __device__ HeadRows Values(const KvLayerView& cache) const {
    const size_t step = cache.values_offset - cache.keys_offset;
    return {rows + step, scales + step, row_bytes, scale_bytes};
  }
  __device__ const uint8_t* Row(int token) const {
    return rows + static_cast<size_t>(token) * row_bytes;
  }
  __device__ float Scale(int token) const {
    return *reinterpret_cast<const float*>(scales + static_cast<size_t>(token) * scale_bytes);
  }
};

// The keys.
__device__ inline HeadRows KeysAt(const KvLayerView& cache, int32_t block, int token_in_block,
                                  int kv_head) {
  const KvPartShape part = cache.part();
  const auto head = static_cast<size_t>(kv_head);
  return {cache.KeyRow(block, token_in_block) + head * part.head_bytes(),
          cache.KeyScales(block, token_in_block) + head * sizeof(float), part.row_bytes(),
          part.scale_bytes()};
}

}  // namespace baton
