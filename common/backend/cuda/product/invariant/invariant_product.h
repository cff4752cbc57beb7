// Products for --deterministic, of one row or thousands: out = in x weight^T, or out += scale * in
// x weight^T. A row has the same bits whatever the number of rows.
//
// Tensor cores (mma m16n8k16) take BF16 and sum in float32. Activations are the sum of one or two
// BF16 terms (ProductTerms). BF16 weights are exact, F16 and F32 weights are two terms. Values of
// Q8_0 are rounded to one term, codes of the other quantised types are exact. The weight's shape and
// type fix the order of a sum:
//   - The columns are cut into at most 8 parts (InvariantPartTiles). Each part is one chain of mma,
//     ascending. Parts are added in ascending order, and their sum last to the old value of `out`:
//     fma(scale, sum, out).
//   - Four lanes share a row. A lane has 8 consecutive columns (Q8_0: 16); an mma takes 4 of each
//     lane's columns, ascending.
//   - But for Q8_0, two mma multiply a block of 32 columns of quantised weights, which has one scale:
//       sum = fma(scale, sum of codes * x, sum), then fma(min, sum of x, sum) if there is a min,
//     with codes - 8 for Q4_0, codes - 32 for Q6_K; for Q4_1 and Q4_K with codes + 128, and
//     min - 128 * scale in place of the min. Of Q6_K, each of the two multiplies 16 columns, which
//     have a scale of their own: the first 16, then the others.
//   - Per mma the products of terms follow one another: high x high, high x the weight's low, the
//     activation's low x high. Low x low, 2^-16 of the product, is left out.
// There are two kernels. One has a warp for each part of 16 outputs and few rows, so that even for
// one row the whole device reads. The other has tiles of 128 outputs and up to 128 rows, with all
// parts in one warp, one after the other; of quantised weights, if there are few tiles, each part in a
// thread block of its own (SplitScratch). For BF16 weights and more than 16 rows there is another
// pair of the same kinds (invariant_bf16_stage.h), if a device has the shared memory. For an
// element of `out` all execute the same instructions in the same order.
//
// Bytes in flight for one row: 8 to 24 warps on a multiprocessor, with 2 to 4 KB of weights each.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/product/product_operands.h"
#include "common/backend/cuda/product/product_terms.h"

namespace baton {

// To be raised with every change that may change a bit: it is part of Backend::Numerics.
inline constexpr int kInvariantVersion = 3;

inline constexpr int kMaxColumnParts = 8;
// The column tiles (product_terms.h) of a part.
constexpr int InvariantPartTiles(int columns) {
  return (ColumnTiles(columns) + kMaxColumnParts - 1) / kMaxColumnParts;
}

// Device memory in which thread blocks leave the sums of a part of the columns for each other, if
// there are fewer tiles than multiprocessors. SplitScratchBytes, zeros at first; products that share
// it follow one another. Without it no columns are divided.
struct SplitScratch {
  void* data = nullptr;
};
inline constexpr size_t kSplitSumBytes = 128 * 64 * sizeof(float);  // a tile's, of one part
constexpr size_t SplitArrivalBytes(int tiles) {
  return (static_cast<size_t>(tiles) * sizeof(int32_t) + 15) / 16 * 16;
}
constexpr size_t SplitScratchBytes(const DeviceLimits& limits) {
  return SplitArrivalBytes(limits.multiprocessors) +
         static_cast<size_t>(limits.multiprocessors) * kMaxColumnParts * kSplitSumBytes;
}

// Multiplies `in` with the weights of all outputs, with one kernel for each element type among
// them. REQUIRES: 1 to kMaxVectorOutputs outputs, none of which overlaps another.
void LaunchInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            const DeviceLimits& limits, const SplitScratch& scratch,
                            cudaStream_t stream);

}  // namespace baton
