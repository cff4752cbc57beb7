// What the backends' operations take: views of a backend's memory with their shapes.
#pragma once

#include <cstddef>
#include <cstdint>

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

// Element type of the KV cache.
enum class KvDtype { kF32, kF16, kBf16 };

// One layer of the paged KV cache. The rows of a block's tokens follow one another; a row is
// [kv_heads, head_dim].
struct KvLayerView {
  uint8_t* blocks = nullptr;  // block 0
  size_t block_bytes = 0;     // from one block to the next, all layers included
  size_t keys_offset = 0;     // bytes from a block's start to this layer's K rows
  size_t values_offset = 0;   // the same for V
  int block_size = 0;         // tokens per block
  int kv_heads = 0;
  int head_dim = 0;
  KvDtype dtype = KvDtype::kF16;

  constexpr size_t element_bytes() const { return dtype == KvDtype::kF32 ? 4 : 2; }
  constexpr size_t row_bytes() const {
    return static_cast<size_t>(kv_heads) * static_cast<size_t>(head_dim) * element_bytes();
  }
  constexpr uint8_t* KeyRow(int32_t block, int token_in_block) const {
    return blocks + static_cast<size_t>(block) * block_bytes + keys_offset +
           static_cast<size_t>(token_in_block) * row_bytes();
  }
  constexpr uint8_t* ValueRow(int32_t block, int token_in_block) const {
    return KeyRow(block, token_in_block) - keys_offset + values_offset;
  }
};

}  // namespace baton
