// Matrix products: out[r][n] = the sum over k of in[r][k] * weight[n][k].
//
// Float weights: sum = fma(weight, in, sum), k ascending from +0, the weight widened exactly.
// Quantised weights, blocks ascending from +0, with s the exact integer sum of (code - offset) *
// value over a block of 32 columns:
//   Q4_0, Q5_0, Q8_0:        sum = fma(s, weight scale * input scale, sum)
//   Q4_1, Q5_1, Q4_K, Q5_K:  the same, then sum = fma(min, input scale * (the sum of the block's
//                            values), sum); a K-quant's min is -(super min * min)
//   Q6_K:                    sum = fma(s, (super scale * scale) * input scale, sum) for the first
//                            16 columns of the block, then for the other 16
// With an input of two terms both are summed so by themselves, and then added.
//
// Vector lanes hold outputs, so neither their number nor the tile of rows changes a bit. Few rows
// multiply with the weights as they are unpacked in registers; many share a panel that is unpacked
// once into the first cache.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/cpu_weight.h"
#include "common/backend/cpu/product_input.h"
#include "common/backend/cpu/thread_pool.h"

namespace baton {

// A block of 16 outputs, unpacked.
struct alignas(64) PanelBlock {
  uint8_t codes[kQuads][kQuadBytes];
  float scale[2][kLanes];  // of the half blocks; where the block has one scale, the first
  float min[kLanes];
};

inline constexpr int kPanelBlocks = 18;         // columns of a quantised panel, in blocks
inline constexpr int kFloatPanelColumns = 256;  // columns of a panel of floats
inline constexpr int kMaxTileGroups = 2;
// So many rows of a quantised product do without a panel.
inline constexpr int kMaxDirectRows = 16;

// One thread's; grows and is used again.
struct ProductScratch {
  std::vector<PanelBlock> panel;   // [kMaxTileGroups, kPanelBlocks]
  std::vector<Lanes> float_panel;  // [kFloatPanelColumns, kMaxTileGroups]
  std::vector<Lanes> sums;         // [rows, kMaxTileGroups]: between panels
};

// What a kernel computes: all rows of some groups of 16 outputs of one weight.
struct ProductArgs {
  GgmlType type = GgmlType::kF32;
  const uint8_t* weight = nullptr;  // [groups, group_bytes]
  size_t group_bytes = 0;
  int columns = 0;                         // of the weight
  int rows = 0;                            // of the input, its terms included
  const QuantizedBlock* blocks = nullptr;  // [rows, columns / 32]
  const float* floats = nullptr;           // [rows, columns]
  int terms = 1;
  float* out = nullptr;  // [rows / terms, out_columns]
  int out_columns = 0;
  bool accumulate = false;
  PanelBlock* panel = nullptr;
  Lanes* float_panel = nullptr;
  Lanes* sums = nullptr;
};

// REQUIRES: `input` was prepared as the weights' types ask; out [rows, weight rows]. `scratch`
// [threads of the pool].
void MultiplyWeights(const CpuKernels& kernels, ThreadPool& pool, const ProductInput& input,
                     absl::Span<const Backend::ProductOutput> outputs,
                     std::vector<ProductScratch>& scratch);

}  // namespace baton
