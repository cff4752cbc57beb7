// A queue of copies in one direction between device and host.
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

#include "common/backend/cuda/device/cuda_memory.h"
#include "common/backend/device_copies.h"

namespace baton {

// Thread-safe. Owns a stream, and a thread that sleeps until the event behind some copies has come,
// then calls their `done`. It does not use cudaLaunchHostFunc: the stream would wait for the
// callback, and the callback may call nothing of CUDA, not even give memory back.
//
// A stream keeps its order: copies of a layer that is not computed yet would hold up copies of
// layers that are. So the stream gets only a few copies ahead, those with the lowest marks first.
class CopyQueue {
 public:
  // Makes `stream` wait for the operations of a mark that is not 0.
  using WaitFor = std::function<void(cudaStream_t stream, uint64_t mark)>;

  CopyQueue(int device, cudaMemcpyKind direction, WaitFor wait_for);
  // Waits for all copies and their `done`.
  ~CopyQueue();
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  // Queues `copies`, to begin after the operations of the mark `after`, or at once if it is 0.
  // See DeviceCopies for `done` and for what must not change until then.
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
  // Gives the stream as many waiting copies as may be ahead. REQUIRES: mutex_ is held.
  void BeginNext();
  CudaEvent TakeEvent();
  // Copies the first of `copies` and those that follow it at equal distances, in one call. Returns
  // how many these are.
  size_t CopyFirst(absl::Span<const DeviceCopy> copies);

  const int device_;
  const cudaMemcpyKind direction_;
  const WaitFor wait_for_;
  const CudaStream stream_;
  std::mutex mutex_;  // guards all members below
  std::condition_variable changed_;
  std::multimap<uint64_t, Waiting> waiting_;  // mark -> copies; bounded by the memory to copy
  std::deque<Begun> begun_;                   // copies that the stream has; at most kAhead
  std::vector<CudaEvent> events_;             // events that are free
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace baton
