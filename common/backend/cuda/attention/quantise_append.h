// LaunchRotateAndAppend for a cache of codes (kv_codes.h): rotates, quantises each head, appends
// codes and scales. The bits are those of the CPU.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/attention/rotate_head.h"

namespace baton {

// REQUIRES: int8 or fp8, head_dim <= kMaxVectorHeadDim; see LaunchRotateAndAppend.
void LaunchRotateAndQuantise(const RotateArguments& arguments, cudaStream_t stream);

}  // namespace baton
