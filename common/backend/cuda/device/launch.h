// The launch of kernels. A kernel is a `static` function or template directly in namespace baton,
// not in an anonymous namespace. Its only shared memory is
//   extern __shared__ __align__(16) uint8_t shared_memory[];
// declared inside it. Tests can then run it without a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/backend/cuda/device/cuda_error.h"

namespace baton {

struct LaunchOptions {
  dim3 grid = 1;            // thread blocks, at least one
  dim3 block = 1;           // threads of a block
  size_t shared_bytes = 0;  // dynamic shared memory of a block
  cudaStream_t stream = nullptr;
  // The kernel may begin before the previous one has ended (programmatic dependent launch; nothing
  // changes if the device has none). Then every thread, even one without work, must call
  // WaitForPreviousKernel() of ptx.h before it reads what a kernel wrote and before it writes
  // anything.
  bool may_start_early = false;
};

// CheckCuda with a description of the launch.
inline void CheckLaunch(cudaError_t error, const LaunchOptions& options) {
  if (error == cudaSuccess) [[likely]] {
    return;
  }
  char what[160];
  std::snprintf(what, sizeof(what),
                "launch of %u x %u x %u blocks of %u x %u x %u threads and %zu bytes of shared "
                "memory",
                options.grid.x, options.grid.y, options.grid.z, options.block.x, options.block.y,
                options.block.z, options.shared_bytes);
  CheckCuda(error, what);
}

// An attribute of the device that is current at the call; 0 if the device has no such attribute.
// KernelsMayStartEarly and MostSharedBytes remember the first call's, because a process uses one
// device.
inline int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
}

// Whether this build's kernels may start early; `kernel` is any of them. A kernel that was compiled
// for an older device and translated for a newer one when it was loaded would not wait for the
// kernel before it.
inline bool KernelsMayStartEarly(const void* kernel) {
  static const bool may = [kernel] {
    cudaFuncAttributes attributes = {};
    return DeviceAttribute(cudaDevAttrComputeCapabilityMajor) >= 9 &&
           cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  return may;
}

// The most bytes of shared memory that a kernel may ask for. Launch raises a kernel's limit to it
// for good: a recorded launch needs the limit until it is replayed, and other launches of the
// kernel may have asked for less in between.
inline int MostSharedBytes() {
  static const int most = DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return most;
}

// The number of blocks for `items`, where each block takes `per_block` of them.
template <class Count, class PerBlock>
unsigned BlocksFor(Count items, PerBlock per_block) {
  const size_t each = static_cast<size_t>(per_block);
  return static_cast<unsigned>((static_cast<size_t>(items) + each - 1) / each);
}

// Enqueues kernel(arguments...), which are copied. Ends the process (cuda_error.h) when the launch
// is refused: its shape is wrong, or an earlier kernel has failed and the context is lost.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), const LaunchOptions& options, Arguments&&... arguments) {
  constexpr size_t kSharedBytesUnasked = 48 * 1024;
  if (options.shared_bytes > kSharedBytesUnasked) {
    CheckLaunch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     MostSharedBytes()),
                options);
  }
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = options.grid;
  config.blockDim = options.block;
  config.dynamicSmemBytes = options.shared_bytes;
  config.stream = options.stream;
  config.attrs = &early;
  config.numAttrs =
      options.may_start_early && KernelsMayStartEarly(reinterpret_cast<const void*>(kernel)) ? 1
                                                                                             : 0;
  CheckLaunch(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), options);
}

}  // namespace baton
