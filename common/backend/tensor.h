// The operands of the backends' operations: views of a backend's memory with their shapes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/kv_type.h"

namespace baton {

// A row-major float matrix [rows, columns] in a backend's memory; borrowed.
struct Tensor {
  float* data = nullptr;
  int rows = 0;
  int columns = 0;

  constexpr float* Row(int row) const {
    return data + static_cast<size_t>(row) * static_cast<size_t>(columns);
  }
  // The first `count` rows. REQUIRES: count <= rows.
  constexpr Tensor First(int count) const { return {data, count, columns}; }
};

// Attention cuts a sequence's keys at absolute multiples of it. Each segment has its own sum and
// maximum, so that results do not depend on which segments are computed together.
inline constexpr int kAttentionSegment = 256;  // keys

// The place of K, or of V, of one layer in one block: [block_size] rows [kv_heads, head_dim], then
// [block_size] rows of scales [kv_heads] if the type has scales. Only this struct says where these
// lie.
struct KvPartShape {
  int block_size = 0;  // tokens
  int kv_heads = 0;
  int head_dim = 0;
  KvType dtype = KvType::kF16;

  // The bytes of one KV head of one token.
  constexpr size_t head_bytes() const { return KvHeadBytes(dtype, static_cast<size_t>(head_dim)); }
  // The bytes of one KV head's scales of one token.
  constexpr size_t head_scale_bytes() const {
    return KvScaleBytes(dtype, static_cast<size_t>(head_dim));
  }
  // The bytes of one token, without its scales.
  constexpr size_t row_bytes() const { return static_cast<size_t>(kv_heads) * head_bytes(); }
  // The bytes of one token's scales.
  constexpr size_t scale_bytes() const {
    return static_cast<size_t>(kv_heads) * head_scale_bytes();
  }
  // The bytes of all rows and scales; a multiple of 16, as block_size is.
  constexpr size_t bytes() const {
    return static_cast<size_t>(block_size) * (row_bytes() + scale_bytes());
  }
  constexpr size_t RowOffset(int token_in_block) const {
    return static_cast<size_t>(token_in_block) * row_bytes();
  }
  constexpr size_t ScaleOffset(int token_in_block) const {
    return static_cast<size_t>(block_size) * row_bytes() +
           static_cast<size_t>(token_in_block) * scale_bytes();
  }
};

// A view of one layer of the paged KV cache; borrowed. The rows of a block's tokens follow one
// another; a row is [kv_heads, head_dim].
struct KvLayerView {
  uint8_t* blocks = nullptr;  // block 0
  size_t block_bytes = 0;     // bytes from one block to the next, all its layers included
  size_t keys_offset = 0;     // bytes from a block's start to this layer's K
  size_t values_offset = 0;   // bytes from a block's start to this layer's V
  int block_size = 0;         // tokens per block
  int kv_heads = 0;
  int head_dim = 0;
  KvType dtype = KvType::kF16;
  int groups = 1;  // entries of a sequence's block table for each block_size tokens
  int group = 0;   // index of the entry with this layer's block

  // The index in a sequence's block table of the block that holds its token at `position`.
  constexpr size_t TableIndex(int position) const {
    const int index = position / block_size * groups + group;  // 64 bits cost kernels registers
    return static_cast<size_t>(index);
  }
  // The shape of this layer's K in a block, which is also that of its V.
  constexpr KvPartShape part() const { return {block_size, kv_heads, head_dim, dtype}; }
  constexpr size_t row_bytes() const { return part().row_bytes(); }

  constexpr uint8_t* KeyRow(int32_t block, int token_in_block) const {
    return Keys(block) + part().RowOffset(token_in_block);
  }
  constexpr uint8_t* ValueRow(int32_t block, int token_in_block) const {
    return KeyRow(block, token_in_block) - keys_offset + values_offset;
  }
  // The scales of all KV heads, if the type has scales.
  constexpr uint8_t* KeyScales(int32_t block, int token_in_block) const {
    return Keys(block) + part().ScaleOffset(token_in_block);
  }
  constexpr uint8_t* ValueScales(int32_t block, int token_in_block) const {
    return KeyScales(block, token_in_block) - keys_offset + values_offset;
  }

 private:
  constexpr uint8_t* Keys(int32_t block) const {
    return blocks + static_cast<size_t>(block) * block_bytes + keys_offset;
  }
};

}  // namespace baton
