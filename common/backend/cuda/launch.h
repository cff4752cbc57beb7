// How kernels are launched. Kernels are functions or templates of namespace baton itself, not of an
// anonymous one, `static`, with no shared memory but
//   extern __shared__ __align__(16) uint8_t shared_memory[];
// declared inside them, so that tests can run them without a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/backend/cuda/cuda_error.h"

namespace baton {

struct LaunchOptions {
  dim3 grid = 1;            // blocks, at least one
  dim3 block = 1;           // threads
  size_t shared_bytes = 0;  // of dynamic shared memory
  cudaStream_t stream = nullptr;
  // The kernel may begin before the one before it has ended (programmatic dependent launch; where
  // the device has none, nothing changes). Then every thread, one that has nothing to do too, calls
  // WaitForPreviousKernel() of ptx.h, before it reads what a kernel wrote and before it writes at
  // all.
  bool may_start_early = false;
};

// CheckCuda with what was to be launched.
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

// Of the device that is current at the first call, as below: a process uses one. 0: it has no such
// attribute.
inline int DeviceAttribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
}

// `kernel`: any of this build. One that was compiled for an older device and translated for a newer
// one when it was loaded does not wait for the kernel before it.
inline bool KernelsMayStartEarly(const void* kernel) {
  static const bool may = [kernel] {
    cudaFuncAttributes attributes = {};
    return DeviceAttribute(cudaDevAttrComputeCapabilityMajor) >= 9 &&
           cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
  }();
  return may;
}

// What a kernel may ask for at most, in bytes. Its limit is raised to that, once and for all: a
// recorded launch needs it until it is replayed, when another launch has long asked for less.
inline int MostSharedBytes() {
  static const int most = DeviceAttribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return most;
}

// Blocks for `items`, when each takes `per_block` of them.
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
