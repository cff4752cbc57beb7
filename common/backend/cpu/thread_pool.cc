#include "common/backend/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/check.h"

namespace baton {
namespace {

// About 25 microseconds: longer than the caller's own work between two operations, shorter than a
// scheduler's slice.
constexpr int kSpins = 1500;

// Few enough that claiming costs nothing, enough that a slow thread leaves its share to the others.
constexpr int kChunksPerThread = 4;

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Refused only when the CPU was taken away since the flag was checked; then the thread runs
  // unpinned.
  sched_setaffinity(0, sizeof(set), &set);
}

cpu_set_t AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

// Waits until `value` is no longer `old`: spins, then sleeps.
template <class T>
void AwaitChange(const std::atomic<T>& value, T old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    __builtin_ia32_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseCpuSet(const std::string& text) {
  const auto invalid = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpu-set '", text, "': ", why, "; write CPU numbers like 0,2-5"));
  };
  const cpu_set_t allowed = AllowedCpus();
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return invalid("not a number");
    int last = first;
    if (part.find('-') != absl::string_view::npos && !absl::SimpleAtoi(ends.second, &last)) {
      return invalid("not a number");
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return invalid("not a range");
    for (int cpu = first; cpu <= last; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) {
        return invalid(absl::StrCat("CPU ", cpu, " is not one that this process may use"));
      }
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return invalid(absl::StrCat("CPU ", cpu, " is named twice"));
      }
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

int AvailableCpus() {
  const cpu_set_t allowed = AllowedCpus();
  return std::max(1, CPU_COUNT(&allowed));
}

ThreadPool::ThreadPool(int threads, std::vector<int> cpus)
    : cpus_(std::move(cpus)), spins_(threads <= AvailableCpus() ? kSpins : 0) {
  BATON_CHECK(threads >= 1, "a pool has at least its caller");
  for (int thread = 1; thread < threads; ++thread) {
    helpers_.emplace_back([this, thread] { HelperLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::HelperLoop(int thread) {
  if (!cpus_.empty()) Pin(cpus_[static_cast<size_t>(thread) % cpus_.size()]);
  uint32_t seen = 0;
  while (true) {
    AwaitChange(generation_, seen, spins_);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    ComputeChunks(thread);
  }
}

void ThreadPool::ComputeChunks(int thread) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while ((ticket & 0xffffffffu) != 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    // The claimed chunk keeps the operation open, so `work_` and `chunks_` are its own.
    (*work_)(thread, chunks_ - static_cast<int>(ticket & 0xffffffffu));
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::PinCaller() {
  if (cpus_.empty() || pinned_caller_ == std::this_thread::get_id()) return;
  Pin(cpus_[0]);
  pinned_caller_ = std::this_thread::get_id();
}

void ThreadPool::Run(int chunks, absl::FunctionRef<void(int, int)> work) {
  PinCaller();
  if (helpers_.empty() || chunks <= 1) {
    for (int chunk = 0; chunk < chunks; ++chunk) work(0, chunk);
    return;
  }
  work_ = &work;
  chunks_ = chunks;
  unfinished_.store(chunks, std::memory_order_relaxed);
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t{generation} << 32 | static_cast<uint32_t>(chunks),
                std::memory_order_release);
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  ComputeChunks(/*thread=*/0);
  for (int left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    AwaitChange(unfinished_, left, spins_);
  }
}

void ThreadPool::ParallelFor(int count, absl::FunctionRef<void(int, int)> work) {
  if (count <= 0) return;
  const int64_t chunks = size() == 1 ? 1 : std::min(count, size() * kChunksPerThread);
  Run(static_cast<int>(chunks), [&](int /*thread*/, int chunk) {
    work(static_cast<int>(count * int64_t{chunk} / chunks),
         static_cast<int>(count * (int64_t{chunk} + 1) / chunks));
  });
}

}  // namespace baton
