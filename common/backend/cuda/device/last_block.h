// Thread blocks that work on one result: the last of them finishes it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace baton {

// True in the last of `expected` blocks that come here: it sees what all of them wrote. The counter
// is zero again then. `shared` [1], in shared memory.
__device__ inline bool ComesLast(int32_t* counter, int expected, int32_t* shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    // tests/planted_bugs: kernel_last_block_without_first_fence
    __threadfence();
    *shared = atomicAdd(counter, 1) == expected - 1;
    // tests/planted_bugs: kernel_last_block_without_second_fence
    __threadfence();
    if (*shared != 0) *counter = 0;
  }
  __syncthreads();
  return *shared != 0;
}

}  // namespace baton
