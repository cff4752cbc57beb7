// The last step of every product's kernel: from the sum of an output to the value that is stored.
#pragma once

#include <cuda_runtime.h>

namespace baton {

// `out` is what is there; it is read only if `accumulate`.
__device__ __forceinline__ float OutputOf(float sum, bool accumulate, float scale,
                                          const float& out) {
  return accumulate ? fmaf(scale, sum, out) : sum;
}

}  // namespace baton
