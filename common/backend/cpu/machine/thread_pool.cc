#include "common/backend/cpu/machine/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/check.h"

namespace baton {
namespace {

// Longer than the caller's own work between two operations, shorter than another process would
// notice.
constexpr std::chrono::nanoseconds kSpinTime = std::chrono::microseconds(80);
// About a microsecond: the clock is read this often, and never in shorter waits.
constexpr int kPausesPerClockRead = 32;

// Few enough that claims cost nothing, enough that a slow thread leaves its share to the others.
constexpr int kChunksPerThread = 4;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "a futex is the word itself");

// Sleeps while `word` is `old`. Returns at once when it is not, and sometimes without a reason.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t old) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
}

// Ends the sleep of the one thread that sleeps on `asleep`.
void Wake(std::atomic<uint32_t>& asleep) {
  asleep.store(0);
  syscall(SYS_futex, &asleep, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Sleeps until woken, unless `ready`. A thread that makes `ready` true looks at `asleep`
// afterwards. All of this is sequentially consistent, so that one of the two sees the other.
template <class Ready>
void SleepUnless(std::atomic<uint32_t>& asleep, Ready ready) {
  asleep.store(1);
  if (!ready()) {
    while (asleep.load() == 1) FutexWait(asleep, 1);
  }
  asleep.store(0);
}

uint64_t PackChunks(uint32_t first, uint32_t end) { return uint64_t{first} << 32 | end; }
uint32_t FirstChunk(uint64_t chunks) { return static_cast<uint32_t>(chunks >> 32); }
uint32_t EndChunk(uint64_t chunks) { return static_cast<uint32_t>(chunks); }
bool NoChunks(uint64_t chunks) { return FirstChunk(chunks) == EndChunk(chunks); }

// Claims the first chunk of a thread's own share. Returns it, or -1.
int ClaimFirst(std::atomic<uint64_t>& chunks) {
  uint64_t left = chunks.load(std::memory_order_acquire);
  while (!NoChunks(left)) {
    if (chunks.compare_exchange_weak(left, PackChunks(FirstChunk(left) + 1, EndChunk(left)),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
      return static_cast<int>(FirstChunk(left));
    }
  }
  return -1;
}

// Claims the last chunk of another thread's share, because that thread goes through its memory in
// order. Returns it, or -1.
int ClaimLast(std::atomic<uint64_t>& chunks) {
  uint64_t left = chunks.load(std::memory_order_acquire);
  while (!NoChunks(left)) {
    if (chunks.compare_exchange_weak(left, PackChunks(FirstChunk(left), EndChunk(left) - 1),
                                     std::memory_order_acq_rel, std::memory_order_acquire)) {
      return static_cast<int>(EndChunk(left)) - 1;
    }
  }
  return -1;
}

// Threads that would share a CPU must not spin for each other.
bool EachHasItsCpu(int threads, const std::vector<int>& cpus) {
  return threads <= (cpus.empty() ? AvailableCpus() : static_cast<int>(cpus.size()));
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::vector<int> cpus)
    : threads_(threads),
      cpus_(std::move(cpus)),
      spin_time_(EachHasItsCpu(threads, cpus_) ? kSpinTime : std::chrono::nanoseconds(0)),
      slots_(std::make_unique<Slot[]>(static_cast<size_t>(std::max(threads, 1)))) {
  BATON_CHECK(threads >= 1, "a pool has at least its caller");
  for (int thread = 1; thread < threads; ++thread) {
    helpers_.emplace_back([this, thread] { HelperLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  for (int thread = 1; thread < threads_; ++thread)
    Wake(slots_[static_cast<size_t>(thread)].asleep);
  for (std::thread& helper : helpers_) helper.join();
}

template <class Ready>
bool ThreadPool::Spin(Ready ready) const {
  if (ready()) return true;
  if (spin_time_.count() == 0) return false;
  std::chrono::steady_clock::time_point end{};
  while (true) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      __builtin_ia32_pause();
      if (ready()) return true;
    }
    const auto now = std::chrono::steady_clock::now();
    if (end.time_since_epoch().count() == 0) end = now + spin_time_;
    if (now >= end) return false;
  }
}

void ThreadPool::HelperLoop(int thread) {
  if (!cpus_.empty()) PinThisThread(cpus_[static_cast<size_t>(thread) % cpus_.size()]);
  Slot& own = slots_[static_cast<size_t>(thread)];
  uint32_t seen = 0;
  const auto called = [&] {
    // The cache line is fetched for writing, so that the first claim need not fetch it again. An
    // operation on two threads then costs 0.3 us instead of 1.0.
    asm volatile("prefetchw %0" : : "m"(own.calls));
    return own.calls.load() != seen || stopping_.load();
  };
  while (true) {
    if (!Spin(called)) SleepUnless(own.asleep, called);
    if (stopping_.load()) return;
    seen = own.calls.load();
    Compute(thread, seen);
  }
}

void ThreadPool::Report(Slot& own, uint32_t count) {
  own.finished.store(own.finished.load(std::memory_order_relaxed) + count);
  if (caller_asleep_.load() != 0) Wake(caller_asleep_);
}

void ThreadPool::Compute(int thread, uint32_t call) {
  Slot& own = slots_[static_cast<size_t>(thread)];
  uint32_t finished = 0;
  for (int chunk = ClaimFirst(own.chunks); chunk >= 0; chunk = ClaimFirst(own.chunks)) {
    (*own.work)(thread, chunk);
    ++finished;
  }
  if (finished > 0) Report(own, finished);
  for (int other = 1; other < threads_; ++other) {
    Slot& slot = slots_[static_cast<size_t>((thread + other) % threads_)];
    if (own.calls.load(std::memory_order_relaxed) != call) return;
    for (int chunk = ClaimLast(slot.chunks); chunk >= 0; chunk = ClaimLast(slot.chunks)) {
      (*slot.work)(thread, chunk);
      Report(own, 1);
    }
  }
}

void ThreadPool::PinCaller() {
  if (cpus_.empty() || pinned_caller_ == std::this_thread::get_id()) return;
  PinThisThread(cpus_[0]);
  pinned_caller_ = std::this_thread::get_id();
}

void ThreadPool::Start(int chunks, absl::FunctionRef<void(int, int)> work) {
  started_ += static_cast<uint32_t>(chunks);
  // Shares are rounded up: if there are fewer chunks than threads, the caller has one.
  const auto first = [&](int thread) {
    return static_cast<uint32_t>((int64_t{chunks} * thread + threads_ - 1) / threads_);
  };
  for (int thread = threads_ - 1; thread >= 0; --thread) {
    if (first(thread) == first(thread + 1)) continue;
    Slot& slot = slots_[static_cast<size_t>(thread)];
    slot.work.emplace(work);
    slot.chunks.store(PackChunks(first(thread), first(thread + 1)), std::memory_order_release);
    slot.calls.store(slot.calls.load(std::memory_order_relaxed) + 1);
  }
  for (int thread = 1; thread < threads_; ++thread) {
    Slot& slot = slots_[static_cast<size_t>(thread)];
    if (first(thread) != first(thread + 1) && slot.asleep.load() != 0) Wake(slot.asleep);
  }
}

bool ThreadPool::AllFinished() const {
  uint32_t finished = 0;
  for (int thread = 0; thread < threads_; ++thread) {
    finished += slots_[static_cast<size_t>(thread)].finished.load();
  }
  return finished == started_;
}

void ThreadPool::AwaitAll() {
  const auto all = [this] { return AllFinished(); };
  while (!Spin(all)) SleepUnless(caller_asleep_, all);
}

void ThreadPool::Run(int chunks, absl::FunctionRef<void(int, int)> work) {
  PinCaller();
  if (threads_ == 1 || chunks <= 1) {
    for (int chunk = 0; chunk < chunks; ++chunk) work(0, chunk);
    return;
  }
  Start(chunks, work);
  Compute(/*thread=*/0, slots_[0].calls.load(std::memory_order_relaxed));
  AwaitAll();
}

void ThreadPool::ParallelFor(int count, absl::FunctionRef<void(int, int)> work) {
  if (count <= 0) return;
  const int64_t chunks = threads_ == 1 ? 1 : std::min(count, threads_ * kChunksPerThread);
  Run(static_cast<int>(chunks), [&](int /*thread*/, int chunk) {
    work(static_cast<int>(count * int64_t{chunk} / chunks),
         static_cast<int>(count * (int64_t{chunk} + 1) / chunks));
  });
}

}  // namespace baton
