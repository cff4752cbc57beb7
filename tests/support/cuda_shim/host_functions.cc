#include "tests/support/cuda_shim/host_functions.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "common/base/check.h"
#include "tests/support/cuda_shim/device_memory.h"
#include "tests/support/cuda_shim/race_detector.h"
#include "tests/support/cuda_shim/streams.h"

namespace baton::cuda_shim {
namespace {

constexpr std::align_val_t kHostAlignment{kMemoryAlignment};
constexpr int kMultiprocessors = 8;

thread_local cudaError_t last_error = cudaSuccess;

Machine& MutableMachine() {
  static Machine machine;
  return machine;
}

cudaError_t Report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
cudaError_t ReportUnless(bool fine, cudaError_t error) {
  return Report(fine ? cudaSuccess : error);
}

// The bytes of shared memory that kernels requested beyond the usual.
std::mutex shared_limits_mutex;
std::map<const void*, size_t>& SharedLimits() {
  static std::map<const void*, size_t> limits;
  return limits;
}

size_t SharedLimit(const void* kernel) {
  const std::lock_guard lock(shared_limits_mutex);
  const auto found = SharedLimits().find(kernel);
  return found == SharedLimits().end() ? kSharedBytesUsual
                                       : std::max(kSharedBytesUsual, found->second);
}

bool WithinLimits(const dim3& grid, const dim3& block) {
  const auto at_least_one = [](const dim3& size) { return size.x > 0 && size.y > 0 && size.z > 0; };
  return at_least_one(grid) && at_least_one(block) && grid.x <= 0x7fffffffu && grid.y <= 0xffffu &&
         grid.z <= 0xffffu && block.z <= 64 &&
         size_t{block.x} * block.y * block.z <= size_t{kThreadsMost};
}

}  // namespace

void SetMachine(const Machine& machine) { MutableMachine() = machine; }

const Machine& TheMachine() { return MutableMachine(); }

cudaError_t LaunchKernel(const cudaLaunchConfig_t& config, const void* kernel,
                         std::function<void()> run_thread) {
  if (!WithinLimits(config.gridDim, config.blockDim)) return Report(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > SharedLimit(kernel)) return Report(cudaErrorInvalidValue);
  bool early = false;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    early |= config.attrs[i].val.programmaticStreamSerializationAllowed != 0;
  }
  const KernelLaunch launch = {.grid = config.gridDim,
                               .block = config.blockDim,
                               .shared_bytes = config.dynamicSmemBytes,
                               .may_start_early = early,
                               .kernel = kernel};
  Enqueue(config.stream, [launch, kernel, run_thread = std::move(run_thread)] {
    BATON_CHECK(launch.shared_bytes <= SharedLimit(kernel),
                "a recorded launch whose limit was lowered since");
    KernelLaunch now = launch;
    now.run_thread = [](const void* thread) {
      (*static_cast<const std::function<void()>*>(thread))();
    };
    now.arguments = &run_thread;
    const DeviceAccess access;
    RunKernel(now);
  });
  return cudaSuccess;
}

}  // namespace baton::cuda_shim

using namespace baton::cuda_shim;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorCudartUnloading:
      return "cudaErrorCudartUnloading";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "unknown error";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = TheMachine().devices;
  return Report(TheMachine().count_error);
}
cudaError_t cudaSetDevice(int device) { return ReportUnless(device == 0, cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return Report(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = TheMachine().major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = TheMachine().minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kSharedBytesMost);
      return cudaSuccess;
  }
  return Report(cudaErrorInvalidValue);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return Report(cudaErrorInvalidDevice);
  *properties = {.name = "fibers",
                 .totalGlobalMem = TheMachine().device_bytes,
                 .sharedMemPerBlock = kSharedBytesUsual,
                 .sharedMemPerBlockOptin = kSharedBytesMost,
                 .multiProcessorCount = kMultiprocessors,
                 .major = TheMachine().major,
                 .minor = TheMachine().minor,
                 .l2CacheSize = 1 << 20};
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = TheMachine().device_bytes - DeviceMemory::Get().used_bytes();
  *total_bytes = TheMachine().device_bytes;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheMachine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (Capturing()) return Report(cudaErrorStreamCaptureUnsupported);
  *data = bytes == 0 ? nullptr : DeviceMemory::Get().Allocate(bytes, TheMachine().device_bytes);
  return ReportUnless(bytes == 0 || *data != nullptr, cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* data) {
  if (Capturing()) return Report(cudaErrorStreamCaptureUnsupported);
  Enqueue(nullptr, [] { RaceDetector::Get().EarlierKernelsEnded(); });
  return ReportUnless(data == nullptr || DeviceMemory::Get().Free(data), cudaErrorInvalidValue);
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  *data = ::operator new(bytes, kHostAlignment);
  std::memset(*data, kPoison, bytes);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return cudaMallocHost(data, bytes);
}
cudaError_t cudaFreeHost(void* data) {
  RunStreams();
  ::operator delete(data, kHostAlignment);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const bool to_device = DeviceMemory::Get().Contains(to, bytes);
  const bool from_device = DeviceMemory::Get().Contains(from, bytes);
  const bool to_should = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_should = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (to_device != to_should || from_device != from_should)) {
    return Report(cudaErrorInvalidValue);
  }
  Enqueue(stream, [=] {
    const DeviceAccess access;
    RaceDetector::Get().EarlierKernelsEnded();
    std::memmove(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && !DeviceMemory::Get().Contains(data, bytes)) return Report(cudaErrorInvalidValue);
  Enqueue(stream, [=] {
    const DeviceAccess access;
    RaceDetector::Get().EarlierKernelsEnded();
    std::memset(data, byte, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int byte, size_t bytes) {
  return cudaMemsetAsync(data, byte, bytes, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (to_pitch < bytes || from_pitch < bytes) return Report(cudaErrorInvalidValue);
  for (size_t row = 0; row < rows; ++row) {
    const cudaError_t error =
        cudaMemcpyAsync(static_cast<uint8_t*>(to) + row * to_pitch,
                        static_cast<const uint8_t*>(from) + row * from_pitch, bytes, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  attributes->maxThreadsPerBlock = kThreadsMost;
  attributes->ptxVersion = 10 * TheMachine().major + TheMachine().minor;
  return ReportUnless(TheMachine().has_code, cudaErrorNoKernelImageForDevice);
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<size_t>(value) > kSharedBytesMost) {
    return Report(cudaErrorInvalidValue);
  }
  const std::lock_guard lock(shared_limits_mutex);
  SharedLimits()[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}
