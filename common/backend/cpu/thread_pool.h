// The threads that compute: a fixed number, which share out the chunks of one operation after the
// other.
#pragma once

#include <atomic>
#include <cstdint>
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

// A chunk goes to whichever thread is free: where another process holds a CPU, the others do its
// share. Who computes a chunk changes no result. Between operations the helpers spin for some
// microseconds and then sleep; where there are more threads than CPUs they sleep at once.
//
// Thread rule: Run and ParallelFor from one thread at a time, which takes part as thread 0.
class ThreadPool {
 public:
  // Thread i stays on CPU cpus[i % size] (the caller from its first Run on); empty: not pinned.
  // REQUIRES: threads >= 1.
  ThreadPool(int threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls work(thread, chunk) once for each chunk in [0, chunks), and returns when all have
  // returned. Calls for one thread never overlap.
  void Run(int chunks, absl::FunctionRef<void(int, int)> work);
  // Calls work(begin, end) for consecutive pieces of [0, count), some for each thread.
  void ParallelFor(int count, absl::FunctionRef<void(int, int)> work);

 private:
  void HelperLoop(int thread);
  // Claims and computes chunks until the current operation has none left.
  void ComputeChunks(int thread);
  void PinCaller();

  const std::vector<int> cpus_;
  const int spins_;
  const absl::FunctionRef<void(int, int)>* work_ = nullptr;  // of the current operation
  int chunks_ = 0;                                           // of the current operation
  // The operation's number in the upper half, its unclaimed chunks in the lower: a claim of an old
  // operation fails.
  std::atomic<uint64_t> ticket_ = 0;
  std::atomic<uint32_t> generation_ = 0;  // what helpers sleep on
  std::atomic<int> unfinished_ = 0;       // chunks that have not returned
  std::atomic<bool> stopping_ = false;
  std::thread::id pinned_caller_;
  std::vector<std::thread> helpers_;
};

}  // namespace baton
