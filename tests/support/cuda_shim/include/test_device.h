// The device on which tests of kernels run: here fibers, in every order. On a GPU the header of the
// same name in tests/gpu/include replaces this one.
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

// Does nothing, since cudaMalloc returns poisoned memory here.
inline void PoisonDeviceMemory(void* /*data*/, size_t /*bytes*/) {}

}  // namespace baton
