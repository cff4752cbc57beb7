// A few threads of a process that take short jobs over from other threads.
#pragma once

#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"

namespace baton {

// A caller offers a job, and does the job itself if it is not taken. So no caller waits for a
// place, few jobs wait, and each caller has at least its own thread, however many other callers
// there are.
//
// Thread-safe. The destructor does the jobs that were taken, then joins the threads.
class JobPool {
 public:
  // With 0 threads no job is taken. REQUIRES: threads >= 0.
  explicit JobPool(int threads);
  ~JobPool();
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;

  // Takes the job, which then runs on a thread of the pool. False, and the job is untouched, where
  // as many wait already as there are threads. Does not wait.
  [[nodiscard]] bool TryTake(std::function<void()>&& job);
  // Takes the job or does it at once.
  void Do(std::function<void()> job);

 private:
  void Run();

  BoundedQueue<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
};

}  // namespace baton
