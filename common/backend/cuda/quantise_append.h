// What rotate_append.h is for a cache of codes (kv_codes.h): rotates, quantises each head, appends
// codes and scales. The CPU's bits.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/rotate_head.h"

namespace baton {

// See LaunchRotateAndAppend. REQUIRES: IsQuantised(cache.dtype), head_dim <= kMaxVectorHeadDim.
void LaunchRotateAndQuantise(const RotateArguments& arguments, cudaStream_t stream);

}  // namespace baton
