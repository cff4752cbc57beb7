// The threads that compute: a fixed number, woken together, each with a fixed share of the rows.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace baton {

// "0,2-5" -> {0, 2, 3, 4, 5}. INVALID_ARGUMENT names --cpu-set; so does a CPU that this process may
// not use.
absl::StatusOr<std::vector<int>> ParseCpuSet(const std::string& text);
// CPUs that this process may run on.
int AvailableCpus();

// Thread rule: Run and ParallelFor from one thread at a time, which takes part as thread 0. Between
// calls the helpers spin for some microseconds and then sleep; where there are more threads than
// CPUs they sleep at once.
class ThreadPool {
 public:
  // Thread i stays on CPU cpus[i % size] (the caller from its first Run on); empty: not pinned.
  // REQUIRES: threads >= 1.
  ThreadPool(int threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls work(thread) once on each thread, and returns when all have returned.
  void Run(absl::FunctionRef<void(int)> work);
  // Calls work(begin, end) on each thread with its share of [0, count), in order of threads; on the
  // caller alone where count is 1.
  void ParallelFor(int count, absl::FunctionRef<void(int, int)> work);

 private:
  void HelperLoop(int thread);
  void PinCaller();

  const std::vector<int> cpus_;
  const int spins_;
  const absl::FunctionRef<void(int)>* work_ = nullptr;  // of the current generation
  std::atomic<uint32_t> generation_ = 0;
  std::atomic<int> running_ = 0;  // helpers that have not returned
  std::atomic<bool> stopping_ = false;
  std::thread::id pinned_caller_;
  std::vector<std::thread> helpers_;
};

}  // namespace baton
