// DeviceCopies of an NVIDIA GPU. Copy engines do the work instead of kernels, so that the
// multiprocessors keep computing.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "common/backend/cuda/device/copy_queue.h"
#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/device_copies.h"

namespace baton {

// Each direction has a stream of its own, so that neither waits for the other. Borrows the
// stream of the backend's operations.
class CudaCopies final : public DeviceCopies {
 public:
  CudaCopies(int device, cudaStream_t operations);

  absl::StatusOr<BackendBuffer> AllocatePinned(size_t bytes) override;
  uint64_t Mark() override;
  void ToHost(absl::Span<const DeviceCopy> copies, uint64_t after, Done done) override;
  void ToDevice(absl::Span<const DeviceCopy> copies, Done done) override;

 private:
  // Mark m and mark m + kMarks share an event. A wait for m may then wait for m + kMarks.
  static constexpr size_t kMarks = 64;
  void WaitFor(cudaStream_t stream, uint64_t mark);

  const int device_;
  const cudaStream_t operations_;
  std::mutex mutex_;  // guards marks_ and last_mark_
  std::array<CudaEvent, kMarks> marks_;
  uint64_t last_mark_ = 0;

  CopyQueue to_host_;  // the queues are declared last, so that they end first: they use the marks
  CopyQueue to_device_;
};

}  // namespace baton
