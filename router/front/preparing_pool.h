// The threads that tokenise: requests become specs off the RPC threads and off the event loop, and
// whole answers become JSON off the I/O threads.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "common/base/bounded_queue.h"

namespace baton {

// Thread-safe. Its destructor closes it.
class PreparingPool {
 public:
  using Job = absl::AnyInvocable<void()>;
  // `capacity`: jobs that may wait for a thread.
  PreparingPool(int threads, size_t capacity);
  ~PreparingPool();

  // False, and `job` is not run, when so many wait already, or the pool is closed.
  bool TryRun(Job job) { return jobs_.TryPush(std::move(job)) == Pushed::kYes; }
  // From now on jobs are to end as soon as they can, since nobody wants their answers.
  void Stop() { stopping_.store(true); }
  // Stops it and runs what was taken; nothing is taken from then on. Not called twice at a time.
  void Close();
  // Read by the jobs.
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  std::atomic<bool> stopping_ = false;
  BoundedQueue<Job> jobs_;
  std::vector<std::thread> threads_;
};

}  // namespace baton
