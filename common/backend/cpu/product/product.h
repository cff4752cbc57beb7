// Matrix products: out[r][n] = the sum over k of in[r][k] * weight[n][k].
//
// Float weights: sum = fma(weight, in, sum), k ascending from +0, the weight widened exactly.
// Quantised weights: blocks of 32 columns, ascending from +0. With s the exact integer sum of
// (code - offset) * value over a block:
//   Q4_0, Q5_0, Q8_0, MXFP4: sum = fma(s, weight scale * input scale, sum)
//   Q4_1, Q5_1, Q4_K, Q5_K:  as Q4_0, then sum = fma(min, input scale * (the sum of the block's
//                            values), sum); a K-quant's min is -(super min * min)
//   Q6_K:                    sum = fma(s, (super scale * scale) * input scale, sum) for the first
//                            16 columns of the block, then for the other 16
// If the input has two terms, each is summed like this by itself; then the two are added. An
// output that accumulates becomes fma(sum, scale, out).
//
// Vector lanes hold outputs, so neither their number nor the tile of rows changes a bit. Few rows
// multiply with weights that are unpacked in registers. Many rows share a panel, which is unpacked
// once: into the first cache if it is read faster than the second one gives it, and into the
// second if that is enough, because every panel's end costs a tile the loads and stores of its
// sums.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/product/cpu_weight.h"
#include "common/backend/cpu/product/product_input.h"

namespace baton {

// A block of 16 outputs, unpacked.
struct alignas(64) PanelBlock {
  uint8_t codes[kQuads][kQuadBytes];
  float scale[2][kLanes];  // scales of the half blocks; a block with one scale has the first only
  float min[kLanes];
};

inline constexpr int kPanelBlocks = 16;          // blocks of columns in a quantised panel
inline constexpr int kFloatPanelColumns = 1024;  // columns in a panel of floats
inline constexpr int kMaxTileGroups = 2;
// The most rows of a quantised product that do without a panel.
inline constexpr int kMaxDirectRows = 16;

// Memory of one thread, which grows and is used again.
struct ProductScratch {
  std::vector<PanelBlock> panel;   // [kMaxTileGroups, kPanelBlocks]
  std::vector<Lanes> float_panel;  // [kFloatPanelColumns, kMaxTileGroups]
  std::vector<Lanes> sums;         // [rows, kMaxTileGroups]; kept from panel to panel
};

// The work of a kernel: all rows of some groups of 16 outputs of one weight. All memory is
// borrowed.
struct ProductArgs {
  GgmlType type = GgmlType::kF32;
  const uint8_t* weight = nullptr;  // [groups, group_bytes]
  size_t group_bytes = 0;
  int columns = 0;                         // columns of the weight
  int rows = 0;                            // rows of the input times its terms
  const QuantizedBlock* blocks = nullptr;  // [rows, block_stride]
  int block_stride = 0;                    // at least the columns / 32
  const float* floats = nullptr;           // [rows, float_stride]
  int float_stride = 0;                    // at least the columns
  int terms = 1;                           // terms of each row of the input, 1 or 2
  float* out = nullptr;                    // [rows / terms, out_columns]
  int out_columns = 0;
  bool accumulate = false;
  float scale = 1;
  PanelBlock* panel = nullptr;
  Lanes* float_panel = nullptr;
  Lanes* sums = nullptr;
};

// The product of some rows with one weight.
struct ProductPart {
  ProductRows input;
  Backend::ProductOutput output;
};

// Computes all parts in one parallel operation. REQUIRES: each input was prepared as its weight's
// type needs it; each out is [rows, weight rows]; `scratch` [threads of the pool].
void MultiplyParts(const CpuKernels& kernels, ThreadPool& pool, absl::Span<const ProductPart> parts,
                   std::vector<ProductScratch>& scratch);

// Multiplies `input` with the weights of all outputs. REQUIRES: `input` was prepared as the
// weights' types need it; each out is [rows, weight rows]; `scratch` [threads of the pool].
void MultiplyWeights(const CpuKernels& kernels, ThreadPool& pool, const ProductInput& input,
                     absl::Span<const Backend::ProductOutput> outputs,
                     std::vector<ProductScratch>& scratch);

}  // namespace baton
