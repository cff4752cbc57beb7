// The blocks of a sequence in shuffled order, in memory of their own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "common/base/float_types.h"
#include "common/handoff/kv_blocks.h"
#include "tests/support/stored_head.h"

namespace baton {

// Three layers with two heads of 32 dimensions.
struct ShuffledBlocks {
  static constexpr uint8_t kUntouched = 0xEE;  // bytes that nothing was written to

  ShuffledBlocks(KvType dtype, int block_size, std::vector<int32_t> table)
      : layout{.layers = 3,
               .kv_heads = 2,
               .head_dim = 32,
               .block_size = block_size,
               .dtype = dtype},
        memory(layout.block_bytes() * 8, kUntouched),
        blocks{memory.data(), layout, std::move(table)} {}
  size_t values() const {
    return static_cast<size_t>(layout.kv_heads) * static_cast<size_t>(layout.head_dim);
  }

  void Set(int layer, KvLayout::Part part, int token, const std::vector<float>& x) {
    uint8_t* const row = blocks.Row(layer, part, token);
    if (IsQuantised(layout.dtype)) {
      StoreHeads({layout.block_size, layout.kv_heads, layout.head_dim, layout.dtype}, x.data(), row,
                 blocks.Scales(layer, part, token));
    } else if (layout.dtype == KvType::kF32) {
      std::memcpy(row, x.data(), layout.row_bytes());
    } else {
      for (size_t i = 0; i < x.size(); ++i) {
        const uint16_t half = layout.dtype == KvType::kF16 ? F32ToF16(x[i]) : F32ToBf16(x[i]);
        std::memcpy(row + 2 * i, &half, 2);
      }
    }
  }
  // Fills the rows of the first `tokens` tokens with random values, the same in each call.
  void Fill(int tokens) {
    std::mt19937 random(7);
    std::normal_distribution<float> value(0, 3);
    for (int layer = 0; layer < layout.layers; ++layer) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = 0; token < tokens; ++token) {
          std::vector<float> x(values());
          for (float& element : x) element = value(random);
          Set(layer, part, token, x);
        }
      }
    }
  }
  std::vector<float> Get(int layer, KvLayout::Part part, int token) const {
    const uint8_t* const row = blocks.Row(layer, part, token);
    std::vector<float> x(values());
    if (IsQuantised(layout.dtype)) {
      return LoadStoredHeads({layout.block_size, layout.kv_heads, layout.head_dim, layout.dtype},
                             row, blocks.Scales(layer, part, token));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      uint16_t half = 0;
      if (layout.dtype == KvType::kF32) {
        std::memcpy(&x[i], row + 4 * i, 4);
      } else {
        std::memcpy(&half, row + 2 * i, 2);
        x[i] = layout.dtype == KvType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
      }
    }
    return x;
  }

  KvLayout layout;
  std::vector<uint8_t> memory;
  KvBlocks blocks;
};

// The CRC of each page from the one at token `first` on, up to token `end`.
inline std::vector<uint32_t> CachedCrcs(const KvBlocks& blocks, int layer, int first, int end) {
  std::vector<uint32_t> crcs;
  for (; first < end; first += kKvPageTokens) {
    crcs.push_back(blocks.PageCrc(layer, {first, std::min(end, first + kKvPageTokens)}));
  }
  return crcs;
}

}  // namespace baton
