// Runs kernels that were compiled as C++: the threads of a block are fibers on the calling thread,
// blocks come one after the other. Which thread goes on whenever one waits is chosen by the fiber
// order, so that a missing barrier shows. What no correct kernel does ends the process with a
// message: lanes of a warp, or threads of a block, that do not meet at the same collective;
// a write beyond the shared memory asked for; a thread that ends without having waited for the
// kernel before it although the launch allowed an early start.
//
// Thread rule: any thread may launch, one launch runs at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "tests/support/cuda_shim/vector_types.h"

namespace baton::cuda_shim {

// Of the threads that can go on, the first, the last, or the first of a permutation drawn anew at
// each barrier. Blocks are ordered alike.
enum class FiberOrder { kForward, kReverse, kSeeded };
inline constexpr FiberOrder kAllFiberOrders[] = {FiberOrder::kForward, FiberOrder::kReverse,
                                                 FiberOrder::kSeeded};

// For all launches from here on; kForward before the first call.
void SetFiberOrder(FiberOrder order, uint32_t seed = 1);

// A byte of memory that nothing was written to: shared memory at each block's start, what
// cudaMalloc returns, the target of a copy that has not been waited for. As floats it is NaN.
inline constexpr int kPoison = 0xff;

inline constexpr size_t kSharedBytesUsual = 48 * 1024;  // more must be asked for per kernel
inline constexpr size_t kSharedBytesMost = 227 * 1024;
inline constexpr int kThreadsMost = 1024;

struct KernelLaunch {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool may_start_early = false;  // programmatic stream serialization
  void (*run_thread)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
};
// REQUIRES: dimensions and shared memory within the device's limits.
void RunKernel(const KernelLaunch& launch);

// --- For the functions that kernels call.

// Ends the process.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

void BlockBarrier(const std::source_location& site);

// What a lane brings to a warp's collective and takes from it.
struct LaneData {
  alignas(8) uint8_t bytes[40];
};
// The data of all 32 lanes, once each has brought its own and `complete` (which may be null) has
// worked on them. Valid until the lane's next collective.
const LaneData* MeetInWarp(const char* collective, uint32_t mask, const void* data, size_t bytes,
                           const std::source_location& site,
                           void (*complete)(LaneData* lanes) = nullptr);

// Of the running thread.
struct PendingCopy {
  void* to;
  const void* from;
  int bytes;        // of the target: 16 or 4
  int valid_bytes;  // of them, the first, are copied; the rest is zero
  int group;
};
struct AsyncCopies {
  std::vector<PendingCopy> pending;
  int committed_groups = 0;
};
AsyncCopies& ThreadAsyncCopies();
int ThreadLane();
void MarkWaitedForPreviousKernel();
// Ends the process unless [data, data + bytes) is shared memory of the launch and `data` is a
// multiple of `bytes`.
void RequireShared(const void* data, size_t bytes, const char* what);

}  // namespace baton::cuda_shim
