// Memory and streams of a CUDA device. All of it belongs to the device that is current
// (cudaSetDevice) on the calling thread, and may be given back on any.
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
// Of its own order: it does not wait for the default stream.
CudaStream MakeCudaStream();

struct CudaEventDeleter {
  void operator()(cudaEvent_t event) const;
};
using CudaEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaEventDeleter>;
// Without timing, which costs.
CudaEvent MakeCudaEvent();

// Device memory, zeroed when it returns, aligned to 256 bytes. RESOURCE_EXHAUSTED says how much was
// asked for and how much is free.
absl::StatusOr<BackendBuffer> AllocateDeviceMemory(size_t bytes);
// Bytes that AllocateDeviceMemory gave to this process and that were not given back. Any thread.
size_t AllocatedDeviceBytes();
// Page-locked host memory, which copies reach without the host's help; not zeroed.
// RESOURCE_EXHAUSTED as above.
absl::StatusOr<BackendBuffer> AllocatePinnedMemory(size_t bytes);

// Makes `buffer` hold at least `bytes`, losing what it held. Waits for the device when it grows.
// RESOURCE_EXHAUSTED as above, and the buffer is empty.
absl::Status ReserveDeviceMemory(size_t bytes, BackendBuffer& buffer);
// The same in the middle of a pass: ends the process (cuda_error.h) where there is no memory.
void GrowDeviceMemory(size_t bytes, BackendBuffer& buffer);

// How often memory that grows has moved: whoever remembers addresses compares.
struct MemoryMoves {
  uint64_t count = 0;
};
inline void GrowDeviceMemory(size_t bytes, BackendBuffer& buffer, MemoryMoves& moves) {
  if (bytes > buffer.size_bytes()) ++moves.count;
  GrowDeviceMemory(bytes, buffer);
}

}  // namespace baton
