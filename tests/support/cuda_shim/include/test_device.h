// What tests of kernels are run by: here by fibers, in every order. On a GPU a header of the same
// name (tests/gpu/include) takes this one's place.
#pragma once

#include <cstddef>

#include "tests/support/cuda_shim/fibers.h"
#include "tests/support/cuda_shim/streams.h"

namespace baton {

namespace cuda_shim {
inline const char* FiberOrderName(FiberOrder order) {
  return order == FiberOrder::kForward   ? "forward"
         : order == FiberOrder::kReverse ? "reverse"
                                         : "seeded";
}
}  // namespace cuda_shim

// cudaMalloc does it.
inline void PoisonDeviceMemory(void* /*data*/, size_t /*bytes*/) {}

}  // namespace baton
