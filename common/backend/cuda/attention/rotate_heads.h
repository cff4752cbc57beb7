// The rotation of kv_int4.h by itself: what attention over an int4 cache ends with.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/tensor.h"

namespace baton {

// Rotates every head of `tensor` [rows, heads * head_dim] in place; twice is the identity but for
// rounding. Asynchronous. REQUIRES: head_dim is a multiple of kKvGroup, at most kMaxVectorHeadDim.
void LaunchRotateHeads(Tensor tensor, int head_dim, cudaStream_t stream);

}  // namespace baton
