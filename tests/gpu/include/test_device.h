// What tests of kernels are run by: here by a GPU, whose threads come in whatever order they do, so
// that there is one. In the other builds a header of the same name
// (tests/support/cuda_shim/include) takes this one's place.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "common/base/check.h"

namespace baton {

namespace cuda_shim {
enum class FiberOrder { kForward };
inline constexpr FiberOrder kAllFiberOrders[] = {FiberOrder::kForward};
inline void SetFiberOrder(FiberOrder /*order*/) {}
inline const char* FiberOrderName(FiberOrder /*order*/) { return "the GPU's"; }

inline void SetStreamsWait(bool /*wait*/) {}  // a GPU's streams put off their work anyhow
// Returns the number of graphs that this process captured.
int GraphsCaptured();
int GraphLaunches();
}  // namespace cuda_shim

// Each byte 0xff: as floats NaN. With BATON_TEST_NO_POISON in the environment the memory stays as
// it is, so that compute-sanitizer's initcheck sees who reads what nobody wrote.
inline void PoisonDeviceMemory(void* data, size_t bytes) {
  static const bool poison = std::getenv("BATON_TEST_NO_POISON") == nullptr;
  if (!poison) return;
  BATON_CHECK(cudaMemset(data, 0xff, bytes) == cudaSuccess,
              "the call on device memory must succeed");
  // A test's stream would not wait.
  BATON_CHECK(cudaDeviceSynchronize() == cudaSuccess, "the call on device memory must succeed");
}

}  // namespace baton
