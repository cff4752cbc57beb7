// The threads that compute: a fixed number, which share the chunks of one operation after the
// other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace baton {

// The threads of a pool, as its constructor takes them.
struct PoolThreads {
  int count = 1;
  std::vector<int> cpus = {};
};

// Made for operations of 5 to 500 microseconds. Thread t of n begins each operation with the same
// share of its chunks: the t-th of n equal ranges. When it has none left, it takes chunks that
// another thread has not begun, from the end: where another process holds a CPU, the others do the
// work. Which thread computes a chunk changes no result. Between operations the helpers spin for
// less than 100 microseconds and then sleep. The caller does the same while others still compute
// chunks. If there are more threads than CPUs, they sleep at once.
//
// Thread rule: Run and ParallelFor from one thread at a time, which takes part as thread 0.
class ThreadPool {
 public:
  // Pins thread i to CPU cpus[i % cpus.size()], the caller from its first Run on and for good;
  // empty: no thread is pinned. REQUIRES: threads >= 1.
  ThreadPool(int threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }
  const std::vector<int>& cpus() const { return cpus_; }

  // Calls work(thread, chunk) once for each chunk in [0, chunks), and returns when all calls have
  // returned. Calls for one thread never overlap.
  void Run(int chunks, absl::FunctionRef<void(int, int)> work);
  // Calls work(begin, end) for consecutive ranges of [0, count), some for each thread.
  void ParallelFor(int count, absl::FunctionRef<void(int, int)> work);

 private:
  // Two cache lines: some CPUs fetch lines in pairs.
  static constexpr size_t kApart = 128;

  // One thread's side of the current operation. A cache line travels between two CPUs in 50 to
  // 250 ns. So everything that starts a thread is on one line, and nothing that others touch
  // meanwhile.
  struct Slot {
    // The range of chunks that no thread has begun: its first in the upper half, its end in the
    // lower. A claim depends on nothing else, so one that was prepared during an earlier operation
    // is valid.
    alignas(kApart) std::atomic<uint64_t> chunks = 0;
    // Kept while a claimed chunk runs.
    std::optional<absl::FunctionRef<void(int, int)>> work;
    // Operations that this thread had a share of, modulo 2^32.
    std::atomic<uint32_t> calls = 0;
    // Chunks that this thread has finished since it began, modulo 2^32.
    alignas(kApart) std::atomic<uint32_t> finished = 0;
    alignas(kApart) std::atomic<uint32_t> asleep = 0;  // the futex that the thread sleeps on
  };

  void HelperLoop(int thread);
  void PinCaller();
  // Gives each thread its share, and wakes the threads that sleep.
  void Start(int chunks, absl::FunctionRef<void(int, int)> work);
  // Computes the thread's own chunks, then chunks that the others have not begun. Returns when the
  // thread is called again, because its own chunks come first. `call` is own.calls at the start.
  void Compute(int thread, uint32_t call);
  // Reports that the thread has finished `count` more chunks.
  void Report(Slot& own, uint32_t count);
  void AwaitAll();
  bool AllFinished() const;
  // Spins while it pays. Returns whether `ready` came true.
  template <class Ready>
  bool Spin(Ready ready) const;

  const int threads_;
  const std::vector<int> cpus_;
  const std::chrono::nanoseconds spin_time_;
  const std::unique_ptr<Slot[]> slots_;  // [threads]
  uint32_t started_ = 0;                 // chunks of all operations so far, modulo 2^32
  std::thread::id pinned_caller_;
  alignas(kApart) std::atomic<uint32_t> caller_asleep_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace baton
