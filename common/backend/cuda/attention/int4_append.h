// LaunchRotateAndAppend for an int4 cache: rotates Q and K by their positions, then all heads as
// kv_int4.h says, and appends K and V. The bits are those of the CPU.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/attention/rotate_head.h"

namespace baton {

// REQUIRES: head_dim is a multiple of kKvGroup, at most kMaxVectorHeadDim; see
// LaunchRotateAndAppend.
void LaunchRotateAndStoreInt4(const RotateArguments& arguments, cudaStream_t stream);

}  // namespace baton
