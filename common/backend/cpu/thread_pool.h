// The threads that compute: a fixed number, which share out the chunks of one operation after the
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

// Made for operations of 5 to 500 microseconds. Thread t of n begins with the same share of an
// operation's chunks each time, the t-th n-th of them in ascending order; when it has none left it
// takes over, from the end, what another has not begun: where another process holds a CPU, the
// others do its share. Who computes a chunk changes no result. Between operations the helpers spin
// for less than 100 microseconds and then sleep, as the caller does for chunks that others still
// compute; where there are more threads than CPUs they sleep at once.
//
// Thread rule: Run and ParallelFor from one thread at a time, which takes part as thread 0.
class ThreadPool {
 public:
  // Thread i stays on CPU cpus[i % size] (the caller from its first Run on, for good); empty: not
  // pinned. REQUIRES: threads >= 1.
  ThreadPool(int threads, std::vector<int> cpus);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }
  const std::vector<int>& cpus() const { return cpus_; }

  // Calls work(thread, chunk) once for each chunk in [0, chunks), and returns when all have
  // returned. Calls for one thread never overlap.
  void Run(int chunks, absl::FunctionRef<void(int, int)> work);
  // Calls work(begin, end) for consecutive pieces of [0, count), some for each thread.
  void ParallelFor(int count, absl::FunctionRef<void(int, int)> work);

 private:
  // Two cache lines: some CPUs fetch lines in pairs.
  static constexpr size_t kApart = 128;

  // One thread's side of the current operation. A line travels between two CPUs in 50 to 250 ns, so
  // all that starts a thread is on one line, and nothing that others touch meanwhile.
  struct Slot {
    // Chunks that nobody has begun: the first in the upper half, past the last in the lower. That
    // is all a claim depends on, so one that was prepared during an earlier operation is valid.
    alignas(kApart) std::atomic<uint64_t> chunks = 0;
    std::optional<absl::FunctionRef<void(int, int)>> work;  // stays while a claimed chunk runs
    // Counts the operations that this thread had a share of.
    std::atomic<uint32_t> calls = 0;
    // Chunks that this thread has finished since the beginning, modulo 2^32.
    alignas(kApart) std::atomic<uint32_t> finished = 0;
    alignas(kApart) std::atomic<uint32_t> asleep = 0;  // what the thread sleeps on
  };

  void HelperLoop(int thread);
  void PinCaller();
  // Gives each thread its share, and wakes those that sleep.
  void Start(int chunks, absl::FunctionRef<void(int, int)> work);
  // Computes the thread's own chunks, then those that the others have not begun, unless it is
  // called again: its own come first. `call` is what own.calls was.
  void Compute(int thread, uint32_t call);
  // Says that the thread has finished `count` chunks more.
  void Report(Slot& own, uint32_t count);
  void AwaitAll();
  bool AllFinished() const;
  // False when `ready` has not come true while it pays to spin.
  template <class Ready>
  bool Spin(Ready ready) const;

  const int threads_;
  const std::vector<int> cpus_;
  const std::chrono::nanoseconds spin_time_;
  const std::unique_ptr<Slot[]> slots_;  // [threads]
  uint32_t started_ = 0;                 // chunks since the beginning, modulo 2^32
  std::thread::id pinned_caller_;
  alignas(kApart) std::atomic<uint32_t> caller_asleep_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace baton
