// Runs kernels that were compiled as C++. The threads of a block are fibers on the calling thread;
// blocks run one after the other. When a thread waits, the fiber order chooses the thread that
// continues, so that a missing barrier shows. These faults of a kernel end the process with a
// message:
// - lanes of a warp, or threads of a block, do not meet at the same collective;
// - a write goes beyond the shared memory of the launch;
// - the launch allows an early start, and a thread ends without waiting for the kernel before it;
// - threads touch the same memory in no order (race_detector.h).
//
// Thread rule: any thread may launch; one launch runs at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

#include "tests/support/cuda_shim/vector_types.h"

namespace baton::cuda_shim {

// Which of the runnable threads continues: the first, the last, or the first of a permutation that
// is drawn again at each barrier. The order of blocks is chosen in the same way.
enum class FiberOrder { kForward, kReverse, kSeeded };
inline constexpr FiberOrder kAllFiberOrders[] = {FiberOrder::kForward, FiberOrder::kReverse,
                                                 FiberOrder::kSeeded};

// Sets the order of all later launches. It is kForward before the first call.
void SetFiberOrder(FiberOrder order, uint32_t seed = 1);

// The byte that fills memory before it is written: shared memory when a block starts, memory from
// cudaMalloc, the target of a copy before the wait for it. As floats it is NaN.
inline constexpr int kPoison = 0xff;

inline constexpr size_t kSharedBytesUsual = 48 * 1024;  // more must be requested for a kernel
inline constexpr size_t kSharedBytesMost = 227 * 1024;
inline constexpr int kThreadsMost = 1024;
inline constexpr int kLanes = 32;  // lanes in a warp

struct KernelLaunch {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  bool may_start_early = false;  // programmatic stream serialization
  const void* kernel = nullptr;  // its code
  void (*run_thread)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
};
// Runs all threads of a launch. REQUIRES: dimensions and shared memory are within the device's
// limits.
void RunKernel(const KernelLaunch& launch);

// The functions below serve the functions that kernels call.

// Prints the message and ends the process.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

void BlockBarrier(const std::source_location& site);

// The bytes that a lane brings to a warp's collective and takes from it.
struct LaneData {
  alignas(8) uint8_t bytes[40];
};
// Waits until all lanes of `mask` have brought their data, lets `complete` (which may be null) work
// on them, and returns the data of all 32 lanes. Valid until the lane's next collective.
const LaneData* MeetInWarp(const char* collective, uint32_t mask, const void* data, size_t bytes,
                           const std::source_location& site,
                           void (*complete)(LaneData* lanes) = nullptr);

// An asynchronous copy of the running thread that has not been waited for.
struct PendingCopy {
  void* to;
  const void* from;
  int bytes;        // size of the target: 16 or 4
  int valid_bytes;  // this many bytes are copied; the rest of the target becomes zero
  int group;
};
struct AsyncCopies {
  std::vector<PendingCopy> pending;
  int committed_groups = 0;
};
AsyncCopies& ThreadAsyncCopies();
// What orders memory beside barriers, and accesses that only the shim sees (race_detector.h). None
// of these counts for access_counter.h.
void OrderWarp(LaneData* lanes);  // a `complete` of MeetInWarp
void Fence();
void NoteAtomic(const void* data, size_t bytes);
void NoteRead(const void* data, size_t bytes);
void NoteWrite(const void* data, size_t bytes);
int ThreadNumber();  // in its block
int ThreadLane();
void MarkWaitedForPreviousKernel();
// Ends the process unless [data, data + bytes) is shared memory of the launch and `data` is aligned
// to `bytes`.
void RequireShared(const void* data, size_t bytes, const char* what);

}  // namespace baton::cuda_shim
