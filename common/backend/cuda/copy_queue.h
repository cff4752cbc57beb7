// Copies in one direction, and who is told of their end.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/types/span.h"

#include "common/backend/cuda/cuda_memory.h"
#include "common/backend/device_copies.h"

namespace baton {

// Thread-safe. A stream, and a thread that sleeps until the event behind some copies has come, then
// calls their `done`. Not cudaLaunchHostFunc: the stream would wait for the callback, which may
// call nothing of CUDA, not even give memory back.
//
// A stream keeps its order, so that copies of a layer that is not computed yet would hold up those
// of others that are: only a few are given to it ahead, those with the lowest marks first.
class CopyQueue {
 public:
  // Has `stream` wait for the operations of a mark that is not 0.
  using WaitFor = std::function<void(cudaStream_t stream, uint64_t mark)>;

  CopyQueue(int device, cudaMemcpyKind direction, WaitFor wait_for);
  // Waits for all.
  ~CopyQueue();
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  void Add(absl::Span<const DeviceCopy> copies, uint64_t after, DeviceCopies::Done done);

 private:
  struct Waiting {
    std::vector<DeviceCopy> copies;
    DeviceCopies::Done done;
  };
  struct Begun {
    CudaEvent copied;
    DeviceCopies::Done done;
  };
  void Run();
  void BeginNext();  // as many as may be ahead
  CudaEvent TakeEvent();
  // Copies the first of `copies` and those that lie behind it at equal distances; how many.
  size_t CopyFirst(absl::Span<const DeviceCopy> copies);

  const int device_;
  const cudaMemcpyKind direction_;
  const WaitFor wait_for_;
  const CudaStream stream_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::multimap<uint64_t, Waiting> waiting_;  // by mark; bounded by the memory that is copied
  std::deque<Begun> begun_;                   // at most kAhead
  std::vector<CudaEvent> events_;             // free ones
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace baton
