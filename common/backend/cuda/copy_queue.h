// Copies in one direction, and who is told of their end.
#pragma once

#include <cuda_runtime.h>

#include <mutex>
#include <thread>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/cuda/cuda_memory.h"
#include "common/backend/device_copies.h"
#include "common/base/bounded_queue.h"

namespace baton {

// Thread-safe. A stream, and a thread that sleeps until the event behind the copies has come, then
// calls `done`. Not cudaLaunchHostFunc: the stream would wait for the callback, which may call
// nothing of CUDA, not even give memory back.
class CopyQueue {
 public:
  CopyQueue(int device, cudaMemcpyKind direction);
  // Waits for all.
  ~CopyQueue();
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  // The copies that follow come after what `event` was recorded behind.
  void WaitFor(cudaEvent_t event);
  void Add(absl::Span<const DeviceCopy> copies, DeviceCopies::Done done);

 private:
  struct Pending {
    CudaEvent copied;
    DeviceCopies::Done done;
  };
  void Run();
  CudaEvent TakeEvent();
  // Copies the first of `copies` and those that lie behind it at equal distances; how many.
  size_t CopyFirst(absl::Span<const DeviceCopy> copies);

  const int device_;
  const cudaMemcpyKind direction_;
  const CudaStream stream_;
  std::mutex mutex_;                // guards the order of the stream, and
  std::vector<CudaEvent> events_;   // free ones
  BoundedQueue<Pending> pending_;   // bounded by the memory that is copied
  std::thread thread_;
};

}  // namespace baton
