#include "tests/support/cuda_shim/fibers.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include <boost/context/detail/fcontext.hpp>

#include "tests/support/cuda_shim/access_counter.h"
#include "tests/support/cuda_shim/fiber_stack.h"
#include "tests/support/cuda_shim/race_detector.h"
#include "tests/support/cuda_shim/thread_order.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace baton {

// The array to which `extern __shared__ uint8_t shared_memory[]` in a kernel refers.
extern uint8_t shared_memory[];
constexpr size_t kGuardBytes = 4096;
alignas(1024) uint8_t shared_memory[cuda_shim::kSharedBytesMost + kGuardBytes];

namespace cuda_shim {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr int kGuardByte = 0xa5;

struct Thread {
  enum class State : uint8_t { kFresh, kSuspended, kAtBarrier, kInWarp, kEnded };
  State state = State::kFresh;
  uint3 index = {};
  FiberStack* stack = nullptr;   // set from the fiber's start to its end
  fcontext_t context = nullptr;  // set while the fiber is suspended
  void* sanitizer_stack = nullptr;
  AsyncCopies copies;
};

struct Warp {
  int arrived = 0;
  int phase = 0;
  const char* collective = nullptr;
  std::source_location site;
  // Data of this meeting and the next: a lane may meet the others again before the slowest lane has
  // read the data of the last meeting.
  LaneData lanes[2][kLanes];
};

bool SameSite(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

class Executor {
 public:
  void SetOrder(FiberOrder order, uint32_t seed);
  void Run(const KernelLaunch& launch);

  void Barrier(const std::source_location& site);
  const LaneData* Meet(const char* collective, uint32_t mask, const void* data, size_t bytes,
                       const std::source_location& site, void (*complete)(LaneData* lanes));
  Thread& current() { return threads_[static_cast<size_t>(current_)]; }
  int number() const { return current_; }
  int lane() const { return current_ % kLanes; }
  size_t shared_bytes() const { return launch_.shared_bytes; }
  const KernelLaunch& launch() const { return launch_; }

 private:
  static void FiberMain(transfer_t from);

  void RunBlock();
  void PrepareThreads();
  void Enter(int thread);
  void RunThreads();
  void Suspend();
  [[noreturn]] void FailStuck() const;

  std::mutex mutex_;
  FiberOrder order_ = FiberOrder::kForward;
  std::mt19937 random_;
  KernelLaunch launch_;

  // The fields below belong to the block that runs.
  int thread_count_ = 0;
  int ended_ = 0;
  int current_ = 0;
  int at_barrier_ = 0;
  std::source_location barrier_site_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  ThreadOrder thread_order_;

  FiberStackPool stacks_;
  fcontext_t scheduler_ = nullptr;  // set while a fiber runs
  SanitizerStack scheduler_stack_;
  bool fiber_is_done_ = false;
};

Executor& TheExecutor() {
  static Executor executor;
  return executor;
}

void Executor::SetOrder(FiberOrder order, uint32_t seed) {
  const std::lock_guard lock(mutex_);
  order_ = order;
  random_.seed(seed);
}

void Executor::Run(const KernelLaunch& launch) {
  const std::lock_guard lock(mutex_);
  launch_ = launch;
  gridDim = launch.grid;
  blockDim = launch.block;
  PrepareThreads();
  std::vector<int> blocks(size_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  std::iota(blocks.begin(), blocks.end(), 0);
  Arrange(order_, random_, blocks);
  std::memset(shared_memory + launch.shared_bytes, kGuardByte, kGuardBytes);
  PoisonAddresses(shared_memory + launch.shared_bytes, sizeof(shared_memory) - launch.shared_bytes);
  RaceDetector::Get().LaunchBegins(launch);
  AccessCounts* const counts = AccessCounts::Active();
  if (counts != nullptr) counts->LaunchBegins(launch);
  for (const int block : blocks) {
    const unsigned index = static_cast<unsigned>(block);
    blockIdx = {index % launch.grid.x, index / launch.grid.x % launch.grid.y,
                index / launch.grid.x / launch.grid.y};
    if (counts != nullptr) counts->BlockBegins();
    RunBlock();
    if (counts != nullptr) counts->BlockEnds();
  }
  RaceDetector::Get().LaunchEnds();
  if (counts != nullptr) counts->LaunchEnds();
  UnpoisonAddresses(shared_memory, sizeof(shared_memory));
  for (size_t i = 0; i < kGuardBytes; ++i) {
    if (shared_memory[launch.shared_bytes + i] != kGuardByte) {
      Fail("a kernel wrote to byte %zu of its %zu bytes of shared memory", launch.shared_bytes + i,
           launch.shared_bytes);
    }
  }
}

void Executor::PrepareThreads() {
  const dim3 block = launch_.block;
  const size_t count = size_t{block.x} * block.y * block.z;
  thread_count_ = static_cast<int>(count);
  threads_.resize(std::max(threads_.size(), count));
  warps_.resize((threads_.size() + kLanes - 1) / kLanes);
  size_t thread = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x) threads_[thread++].index = {x, y, z};
    }
  }
}

void Executor::RunBlock() {
  std::memset(shared_memory, kPoison, launch_.shared_bytes);
  for (int i = 0; i < thread_count_; ++i) {
    Thread& thread = threads_[static_cast<size_t>(i)];
    thread.state = Thread::State::kFresh;
    thread.copies.pending.clear();
    thread.copies.committed_groups = 0;
  }
  ended_ = 0;
  at_barrier_ = 0;
  RaceDetector::Get().BlockBegins();
  thread_order_.Restart(order_, random_, thread_count_);
  while (ended_ < thread_count_) {
    const int thread = thread_order_.First();
    if (thread < 0) FailStuck();
    Enter(thread);
  }
}

// Runs the fiber of `thread`, a new one if the thread has none yet, until the fiber suspends itself
// or has no thread left to run.
void Executor::Enter(int thread) {
  thread_order_.Take(thread);
  current_ = thread;
  RaceDetector::Get().ThreadContinues(thread);
  Thread& entered = current();
  if (entered.state == Thread::State::kFresh) {
    entered.stack = stacks_.Take();
    entered.context =
        make_fcontext(entered.stack->top(), entered.stack->usable_bytes(), &FiberMain);
  } else {
    entered.state = Thread::State::kSuspended;
    threadIdx = entered.index;
  }
  fiber_is_done_ = false;
  void* own_stack = nullptr;
  SwitchStarts(&own_stack, entered.stack->bounds());
  const transfer_t from = jump_fcontext(entered.context, nullptr);
  SwitchEnds(own_stack, nullptr);
  // The fiber may have run several threads meanwhile.
  if (fiber_is_done_) {
    stacks_.GiveBack(current().stack);
  } else {
    current().context = from.fctx;
  }
}

BATON_SHIM_NO_ADDRESS_SANITIZER void Executor::FiberMain(transfer_t from) {
  Executor& executor = TheExecutor();
  executor.scheduler_ = from.fctx;
  SwitchEnds(nullptr, &executor.scheduler_stack_);
  executor.RunThreads();
  SwitchStarts(nullptr, executor.scheduler_stack_);  // null: this stack is given up
  jump_fcontext(executor.scheduler_, nullptr);
}

// Runs the current thread and those after it that have not begun. So a kernel without collectives
// runs to its end in one fiber.
void Executor::RunThreads() {
  while (true) {
    threadIdx = current().index;
    current().state = Thread::State::kSuspended;
    launch_.run_thread(launch_.arguments);
    if (launch_.may_start_early && !RaceDetector::Get().HasWaitedForPreviousKernel()) {
      Fail("thread %d ended without WaitForPreviousKernel(), in a launch that may start early",
           current_);
    }
    current().state = Thread::State::kEnded;
    ++ended_;
    const int next = thread_order_.First();
    if (next < 0 || threads_[static_cast<size_t>(next)].state != Thread::State::kFresh) break;
    thread_order_.Take(next);
    FiberStack* const stack = current().stack;
    current_ = next;
    RaceDetector::Get().ThreadContinues(next);
    current().stack = stack;
  }
  fiber_is_done_ = true;
}

void Executor::Suspend() {
  Thread& thread = current();
  SwitchStarts(&thread.sanitizer_stack, scheduler_stack_);
  scheduler_ = jump_fcontext(scheduler_, nullptr).fctx;
  SwitchEnds(thread.sanitizer_stack, nullptr);
}

void Executor::Barrier(const std::source_location& site) {
  if (at_barrier_ > 0 && !SameSite(site, barrier_site_)) {
    Fail("block (%u,%u,%u): threads diverge: one is at the barrier of %s:%u, another at %s:%u",
         blockIdx.x, blockIdx.y, blockIdx.z, barrier_site_.file_name(), barrier_site_.line(),
         site.file_name(), site.line());
  }
  barrier_site_ = site;
  current().state = Thread::State::kAtBarrier;
  if (++at_barrier_ == thread_count_) {
    at_barrier_ = 0;
    RaceDetector::Get().BarrierPassed();
    if (AccessCounts* const counts = AccessCounts::Active()) counts->BarrierPassed();
    thread_order_.Restart(order_, random_, thread_count_);
  }
  Suspend();
}

const LaneData* Executor::Meet(const char* collective, uint32_t mask, const void* data,
                               size_t bytes, const std::source_location& site,
                               void (*complete)(LaneData* lanes)) {
  Warp& warp = warps_[static_cast<size_t>(current_ / kLanes)];
  const int first = current_ - lane();
  if (mask != 0xffffffffu || first + kLanes > thread_count_) {
    Fail("%s:%u: %s must be called by 32 lanes with a full mask", site.file_name(), site.line(),
         collective);
  }
  if (warp.arrived > 0 &&
      (std::strcmp(warp.collective, collective) != 0 || !SameSite(site, warp.site))) {
    Fail("block (%u,%u,%u), warp %d: lanes diverge: one is at %s of %s:%u, lane %d at %s of %s:%u",
         blockIdx.x, blockIdx.y, blockIdx.z, current_ / kLanes, warp.collective,
         warp.site.file_name(), warp.site.line(), lane(), collective, site.file_name(),
         site.line());
  }
  warp.collective = collective;
  warp.site = site;
  LaneData* const lanes = warp.lanes[warp.phase];
  if (bytes > 0) std::memcpy(lanes[lane()].bytes, data, bytes);
  current().state = Thread::State::kInWarp;
  if (++warp.arrived == kLanes) {
    warp.arrived = 0;
    warp.phase ^= 1;
    if (complete != nullptr) complete(lanes);
    if (AccessCounts* const counts = AccessCounts::Active()) counts->WarpMeets();
    for (int i = 0; i < kLanes; ++i) thread_order_.MakeRunnable(first + i);
  }
  Suspend();
  return lanes;
}

void Executor::FailStuck() const {
  int in_warp = 0;
  for (int i = 0; i < thread_count_; ++i) {
    in_warp += threads_[static_cast<size_t>(i)].state == Thread::State::kInWarp;
  }
  char where[400] = "";
  if (at_barrier_ > 0) {
    std::snprintf(where, sizeof(where), " of %s:%u", barrier_site_.file_name(),
                  barrier_site_.line());
  }
  for (int i = 0; i < thread_count_; i += kLanes) {
    const Warp& warp = warps_[static_cast<size_t>(i / kLanes)];
    if (warp.arrived == 0) continue;
    std::fprintf(stderr, "cuda shim: warp %d: %d lanes wait at %s of %s:%u\n", i / kLanes,
                 warp.arrived, warp.collective, warp.site.file_name(), warp.site.line());
  }
  Fail(
      "block (%u,%u,%u) is stuck: %d threads wait at the barrier%s, %d for lanes of their warp, "
      "%d have ended",
      blockIdx.x, blockIdx.y, blockIdx.z, at_barrier_, where, in_warp, ended_);
}

}  // namespace

void SetFiberOrder(FiberOrder order, uint32_t seed) { TheExecutor().SetOrder(order, seed); }

void RunKernel(const KernelLaunch& launch) { TheExecutor().Run(launch); }

void Fail(const char* format, ...) {
  std::fputs("cuda shim: ", stderr);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

void BlockBarrier(const std::source_location& site) { TheExecutor().Barrier(site); }

const LaneData* MeetInWarp(const char* collective, uint32_t mask, const void* data, size_t bytes,
                           const std::source_location& site, void (*complete)(LaneData* lanes)) {
  return TheExecutor().Meet(collective, mask, data, bytes, site, complete);
}

AsyncCopies& ThreadAsyncCopies() { return TheExecutor().current().copies; }

int ThreadNumber() { return TheExecutor().number(); }
int ThreadLane() { return TheExecutor().lane(); }

void MarkWaitedForPreviousKernel() { RaceDetector::Get().WaitedForPreviousKernel(); }

void OrderWarp(LaneData* /*lanes*/) { RaceDetector::Get().WarpSynchronised(); }
void Fence() { RaceDetector::Get().Fence(); }
void NoteAtomic(const void* data, size_t bytes) {
  RaceDetector::Get().Access(RaceDetector::Kind::kAtomic, data, bytes, __builtin_return_address(0));
}
void NoteRead(const void* data, size_t bytes) {
  RaceDetector::Get().Access(RaceDetector::Kind::kRead, data, bytes, __builtin_return_address(0));
}
void NoteWrite(const void* data, size_t bytes) {
  RaceDetector::Get().Access(RaceDetector::Kind::kWrite, data, bytes, __builtin_return_address(0));
}

void RequireShared(const void* data, size_t bytes, const char* what) {
  const auto* at = static_cast<const uint8_t*>(data);
  if (at < shared_memory || at + bytes > shared_memory + TheExecutor().shared_bytes()) {
    Fail("%s: %p is not in the block's shared memory", what, data);
  }
  if (reinterpret_cast<uintptr_t>(data) % bytes != 0) {
    Fail("%s: %p is not a multiple of %zu", what, data, bytes);
  }
}

}  // namespace cuda_shim
}  // namespace baton
