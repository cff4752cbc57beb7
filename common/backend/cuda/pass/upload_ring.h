// Small uploads to the device that the host does not wait for.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "common/backend/cuda/device/cuda_memory.h"

namespace baton {

// Pinned host memory that is filled, copied in the stream's order, and filled again once that copy
// is done. There are several slots, used in turn, so that the host waits only when it is that far
// ahead. Thread rule: one thread. Borrows the stream.
class UploadRing {
 public:
  explicit UploadRing(cudaStream_t stream);
  // Waits for all copies.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  // Gives host memory of at least `bytes`, aligned to 256, to be filled before Send. Ends the
  // process if there is none.
  uint8_t* Next(size_t bytes);
  // A range of the memory, and where it goes.
  struct Part {
    size_t offset = 0;  // bytes from the start of the memory that Next gave
    size_t bytes = 0;
    void* device = nullptr;
  };
  // Copies the parts of the memory that Next gave last to their places on the device, after
  // everything that the stream was asked for before. REQUIRES: one Send for each Next.
  void Send(absl::Span<const Part> parts);
  // Copies the first `bytes` bytes.
  void Send(size_t bytes, void* device) { Send({{.bytes = bytes, .device = device}}); }

 private:
  static constexpr size_t kSlots = 16;  // a pass takes at most six: enough for two passes ahead
  struct Slot {
    BackendBuffer memory;
    CudaEvent copied;
    bool in_flight = false;
  };

  const cudaStream_t stream_;
  std::array<Slot, kSlots> slots_;
  size_t current_ = 0;
};

}  // namespace baton
