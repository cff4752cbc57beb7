// Memory, streams and events of a CUDA device. All of them belong to the device that is current
// (cudaSetDevice) on the calling thread, and may be given back on any thread.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

struct CudaStreamDeleter {
  void operator()(cudaStream_t stream) const;
};
using CudaStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, CudaStreamDeleter>;
// A stream with an order of its own: it does not wait for the default stream.
CudaStream MakeCudaStream();

struct CudaEventDeleter {
  void operator()(cudaEvent_t event) const;
};
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaEventDeleter>;
// An event without timing, which would cost time.
CudaEvent MakeCudaEvent();

// Zeroed device memory, aligned to 256 bytes. The zeros are there when it returns.
// RESOURCE_EXHAUSTED says how much was asked for and how much is free.
absl::StatusOr<BackendBuffer> AllocateDeviceMemory(size_t bytes);
// Bytes that AllocateDeviceMemory gave this process and that were not given back. Any thread.
size_t AllocatedDeviceBytes();
// Page-locked host memory, which the device copies from and to by itself; not zeroed.
// RESOURCE_EXHAUSTED as for AllocateDeviceMemory.
absl::StatusOr<BackendBuffer> AllocatePinnedMemory(size_t bytes);

// Makes `buffer` hold at least `bytes`. If it has to grow, its contents are lost and this waits for
// the device. RESOURCE_EXHAUSTED as for AllocateDeviceMemory; the buffer is empty then.
absl::Status ReserveDeviceMemory(size_t bytes, BackendBuffer& buffer);
// ReserveDeviceMemory in the middle of a pass: ends the process (cuda_error.h) if there is no
// memory.
void GrowDeviceMemory(size_t bytes, BackendBuffer& buffer);

// How often growing memory has moved. Code that remembers addresses compares the counts.
struct MemoryMoves {
  uint64_t count = 0;
};
inline void GrowDeviceMemory(size_t bytes, BackendBuffer& buffer, MemoryMoves& moves) {
  if (bytes > buffer.size_bytes()) ++moves.count;
  GrowDeviceMemory(bytes, buffer);
}

}  // namespace baton
