// Rotates Q and K by their positions and stores K and V in the paged cache, with the CPU's bits
// (cpu/rope.h).
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/device/operands.h"
#include "common/backend/tensor.h"

namespace baton {

// Rotates the heads of `queries` [rows, heads * head_dim] and `keys` [rows, kv_heads * head_dim] in
// place by the rope's angles, then multiplies `queries` by the pass's query_scales. Stores `keys`
// and `values` (of the shape of `keys`) in the cache at the rows' positions. REQUIRES: head_dim and
// rope.dim are even, rope.dim <= head_dim.
void LaunchRotateAndAppend(const CudaPass& pass, const CudaRope& rope, Tensor queries, Tensor keys,
                           Tensor values, const KvLayerView& cache, cudaStream_t stream);

}  // namespace baton
