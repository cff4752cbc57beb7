// Finds races of the kernel that runs: two threads touch the same memory, one of them writes, and
// nothing in between orders them, although the fibers' order may have hidden it. Kernels are
// compiled so that each of their accesses calls a function of access_hooks.cc.
//
// What orders the accesses of two threads:
// - of one warp, __syncwarp(); other collectives of a warp order no memory;
// - of one block, a barrier between them;
// - of two blocks of a launch, a barrier, __threadfence() and an atomic operation by one thread
//   behind the first access, and an atomic operation on the same word, __threadfence() and a barrier
//   before the second;
// - of two launches, the launch, but where the later one may start early its thread must have waited
//   for the kernel before: until then it writes nothing to device memory, and reads nothing that a
//   kernel wrote since the last launch, copy or fill that waited.
// A race ends the process with a message.
//
// Seen are shared memory, and what cudaMalloc gave. Each word of 4 bytes remembers who wrote it
// last and who read it last, and which of its bytes: where threads take turns at the bytes of one
// word a race may be missed, and nothing else is taken for one.
//
// Thread rule: as RunKernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {

class RaceDetector {
 public:
  enum class Kind : uint8_t { kRead, kWrite, kAtomic };

  static RaceDetector& Get();

  // --- What happens to the device.

  // A copy, a fill or a release of memory, which waits for every kernel before it.
  void EarlierKernelsEnded() { waited_tick_ = ++tick_; }
  void LaunchBegins(const KernelLaunch& launch);
  void LaunchEnds();
  void BlockBegins();

  // --- What happens in the block that runs.

  void ThreadContinues(int thread) { thread_ = thread; }
  void BarrierPassed() { block_tick_ = ++tick_; }
  void WarpSynchronised() { warp_tick_[static_cast<size_t>(thread_ / kLanes)] = ++tick_; }
  void Fence();
  void WaitedForPreviousKernel() { threads_[static_cast<size_t>(thread_)].waited = true; }
  bool HasWaitedForPreviousKernel() const { return threads_[static_cast<size_t>(thread_)].waited; }

  // An access of the running thread, by the instruction behind which `code` is.
  void Access(Kind kind, const void* data, size_t bytes, const void* code) {
    const auto at = reinterpret_cast<uintptr_t>(data);
    if (at - shared_begin_ < shared_bytes_) {
      AccessShared(kind, at - shared_begin_, bytes, code);
    } else if (at - device_begin_ < device_bytes_) {
      AccessDevice(kind, at - device_begin_, bytes, code);
    }
  }

 private:
  // Time is counted by what may order accesses: barriers, __syncwarp, atomics, blocks, launches.
  struct Stamp {
    uint64_t tick : 40 = 0;  // 0: never
    uint64_t thread : 10 = 0;
    uint64_t bytes : 4 = 0;   // a bit for each byte of the word
    uint64_t others : 2 = 0;  // threads that have read since the last order
    uint64_t atomic : 1 = 0;
  };
  struct Word {
    Stamp write;
    Stamp read;
    uint32_t write_code = 0;  // program_lines.h
    uint32_t read_code = 0;
  };
  // Up to which tick a block has seen the accesses of other blocks of the launch, by number.
  using Seen = std::map<size_t, uint64_t>;
  struct Thread {
    bool waited = false;
    uint64_t fence_tick = 0;
    Seen acquired;  // by atomics, not yet by a fence
  };

  void AccessShared(Kind kind, size_t offset, size_t bytes, const void* code);
  void AccessDevice(Kind kind, size_t offset, size_t bytes, const void* code);
  void AccessWord(Word& word, Kind kind, uint64_t bytes, uint32_t code);
  Stamp Merged(const Stamp& before, Stamp now) const;
  bool Races(const Stamp& before, const Stamp& now) const;
  bool IsOrdered(const Stamp& before) const;
  void ReleaseAndAcquire(size_t offset);
  size_t BlockOf(uint64_t tick) const;
  [[noreturn]] void FailOf(const Word& word, const Stamp& before, Kind kind, uint32_t code) const;

  // Zero while no kernel runs.
  size_t shared_bytes_ = 0;
  size_t device_bytes_ = 0;
  uintptr_t shared_begin_ = 0;
  uintptr_t device_begin_ = 0;

  uint64_t tick_ = 1;
  uint64_t waited_tick_ = 1;  // tick of the last launch, copy or fill that waited for all before
  uint64_t launch_tick_ = 1;
  uint64_t block_begin_tick_ = 1;
  uint64_t block_tick_ = 1;  // tick of the last barrier
  uint64_t warp_tick_[kThreadsMost / kLanes] = {};
  bool early_ = false;
  bool in_shared_ = false;  // what AccessWord looks at
  int thread_ = 0;
  int thread_count_ = 0;
  Thread threads_[kThreadsMost];
  std::vector<uint64_t> block_begins_;  // ticks, of the launch's blocks until now
  Seen seen_;                           // by the block that runs
  std::map<size_t, Seen> released_;     // by offset of the word of the atomic operations

  std::vector<Word> shared_;
  std::vector<std::unique_ptr<Word[]>> device_pages_;
};

}  // namespace baton::cuda_shim
