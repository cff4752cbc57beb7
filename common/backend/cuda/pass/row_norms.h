// Norms of activations that are no input of a product. The arithmetic is float32, as on the CPU;
// only the order in which squares are summed differs: thread t of a block sums the squares of the
// columns (or of groups of four, where they divide into these) that are t modulo the block's
// threads, ascending. Lanes are added by the tree +16, +8, +4, +2, +1, warps ascending. The block's
// threads depend on the columns alone.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/tensor.h"

namespace baton {

// values = values * (1 / sqrt(mean(values^2) + epsilon)) * gain, over each `size` neighbouring
// columns by themselves. `gain` [size] in device memory. REQUIRES: size divides the columns.
void LaunchNormGroups(const float* gain, int size, float epsilon, Tensor values,
                      cudaStream_t stream);

// out = fma(scale, in * (1 / sqrt(mean(in^2) + epsilon)) * gain, out), by rows. `gain` [in.columns]
// in device memory. REQUIRES: `in` and `out` have one shape and do not overlap.
void LaunchAddNorm(Tensor in, const float* gain, float epsilon, float scale, Tensor out,
                   cudaStream_t stream);

}  // namespace baton
