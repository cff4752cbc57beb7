// The end of a mixture of experts: the results of a row's pairs are added to its output.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/tensor.h"

namespace baton {

// With sum = fma(share, result, sum) over the row's pairs, ascending from +0: out = fma(scale, sum,
// out). `results` [rows * used, columns] and `shares` [rows * used] are those of pair row * used +
// i; `out` [rows, columns]. All memory is device memory.
void LaunchAddExpertSums(const float* results, const float* shares, int used, float scale,
                         Tensor out, cudaStream_t stream);

}  // namespace baton
