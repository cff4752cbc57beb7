// Products whose rows have the same bits whatever the number of rows: out = in x weight^T, or
// out += it. What --deterministic multiplies with, one row or thousands.
//
// Tensor cores (mma m16n8k16) take BF16 and sum in float32. Activations are the sum of one or two
// BF16 terms (ProductTerms); of weights BF16 is exact, F16 and F32 are two terms, quantised values
// are rounded to one. The order of a sum is fixed by the weight's shape and type:
//   - the columns are cut into parts (InvariantPartTiles), at most 8, each one chain of mma
//     ascending; parts are added in ascending order, to what `out` held last;
//   - a lane of the four that share a row has 8 columns that follow one another (Q8_0: 16, other
//     quantised: 32); an mma takes 4 of each, ascending;
//   - per mma the products of terms follow one another: high x high, high x the weight's low, the
//     activation's low x high. Low x low, 2^-16 of the product, is left out.
// Of two kernels the one has a warp for each part of 16 outputs and few rows, so that even one row
// has the whole device read; the other tiles of 128 x 128 with all parts in one warp, in turn. Both
// call the same instructions for an element of `out`, in the same order.
//
// Bytes in flight, for one row: 16 or 24 warps on a multiprocessor with 2 to 4 KB of weights each.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "common/backend/cuda/operands.h"
#include "common/backend/cuda/product_terms.h"
#include "common/backend/cuda/vector_product.h"

namespace baton {

// Rises with every change that may change a bit: it is part of the numerics.
inline constexpr int kInvariantVersion = 1;

// Tiles of columns (product_terms.h) of a part.
constexpr int InvariantPartTiles(int columns) { return (ColumnTiles(columns) + 7) / 8; }

// One kernel for each element type that the weights have. REQUIRES: 1 to kMaxVectorOutputs outputs,
// none of which overlaps another.
void LaunchInvariantProduct(const ProductTerms& in, std::span<const VectorOutput> outputs,
                            const DeviceLimits& limits, cudaStream_t stream);

}  // namespace baton
