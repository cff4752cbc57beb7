#include "common/backend/cuda/device/cuda_memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cuda/device/cuda_error.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

std::atomic<size_t> allocated_bytes = 0;

// The runtime may be gone before the static destructors are done, and its memory with it.
void CheckFree(cudaError_t error, const char* call) {
  if (error != cudaErrorCudartUnloading) CheckCuda(error, call);
}

// The Status of an allocation. Lack of memory leaves the device as it was, so the caller decides
// what to do; every other error ends the process.
absl::Status AllocationStatus(cudaError_t error, const char* call, size_t bytes, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  if (error != cudaErrorMemoryAllocation) CheckCuda(error, call);
  cudaGetLastError();  // clears the error, or the next check of a launch would find it
  size_t free = 0;
  size_t total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return absl::ResourceExhaustedError(absl::StrCat("no ", bytes, " bytes of ", what, " (",
                                                   free >> 20, " of ", total >> 20,
                                                   " MiB of device memory are free)"));
}

}  // namespace

void CudaStreamDeleter::operator()(cudaStream_t stream) const {
  CheckFree(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

CudaStream MakeCudaStream() {
  cudaStream_t stream = nullptr;
  CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return CudaStream(stream);
}

void CudaEventDeleter::operator()(cudaEvent_t event) const {
  CheckFree(cudaEventDestroy(event), "cudaEventDestroy");
}

CudaEvent MakeCudaEvent() {
  cudaEvent_t event = nullptr;
  CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

absl::StatusOr<BackendBuffer> AllocateDeviceMemory(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* data = nullptr;
  const absl::Status status =
      AllocationStatus(cudaMalloc(&data, bytes), "cudaMalloc", bytes, "device memory");
  if (!status.ok()) return status;
  allocated_bytes += bytes;
  BackendBuffer buffer(static_cast<uint8_t*>(data), bytes, [bytes](uint8_t* memory) {
    CheckFree(cudaFree(memory), "cudaFree");
    allocated_bytes -= bytes;
  });
  CheckCuda(cudaMemset(data, 0, bytes), "cudaMemset");
  // The streams here do not wait for the default one, which writes the zeros.
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return buffer;
}

size_t AllocatedDeviceBytes() { return allocated_bytes; }

absl::StatusOr<BackendBuffer> AllocatePinnedMemory(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* data = nullptr;
  const absl::Status status =
      AllocationStatus(cudaMallocHost(&data, bytes), "cudaMallocHost", bytes, "pinned host memory");
  if (!status.ok()) return status;
  return BackendBuffer(static_cast<uint8_t*>(data), bytes,
                       [](uint8_t* memory) { CheckFree(cudaFreeHost(memory), "cudaFreeHost"); });
}

absl::Status ReserveDeviceMemory(size_t bytes, BackendBuffer& buffer) {
  if (bytes <= buffer.size_bytes()) return absl::OkStatus();
  CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  buffer = BackendBuffer();
  BATON_ASSIGN_OR_RETURN(buffer, AllocateDeviceMemory(bytes));
  return absl::OkStatus();
}

void GrowDeviceMemory(size_t bytes, BackendBuffer& buffer) {
  const absl::Status status = ReserveDeviceMemory(bytes, buffer);
  if (!status.ok()) {
    EndAfterCudaError(
        absl::StrCat(status.message(),
                     " for a pass; lower --max-num-batched-tokens or --gpu-memory-utilization"));
  }
}

}  // namespace baton
