#include "tests/support/cuda_shim/race_detector.h"

#include <algorithm>
#include <cstdio>

#include "tests/support/cuda_shim/device_memory.h"
#include "tests/support/cuda_shim/program_lines.h"

namespace baton {

extern uint8_t shared_memory[];  // fibers.cc

namespace cuda_shim {
namespace {

constexpr size_t kWordBytes = 4;
constexpr size_t kPageWords = 1 << 14;

// Stamp::others of reads: none, lanes of the same warp, warps of the same block, other blocks.
enum Others : uint64_t { kNone, kInWarp, kInBlock, kInLaunch };

const char* NameOf(RaceDetector::Kind kind) {
  return kind == RaceDetector::Kind::kRead    ? "reads"
         : kind == RaceDetector::Kind::kWrite ? "writes"
                                              : "changes by an atomic operation";
}

template <class Stamp>
size_t WarpOf(const Stamp& stamp) {
  return stamp.thread / static_cast<size_t>(kLanes);
}

template <class Seen>
void Merge(Seen& into, const Seen& from) {
  for (const auto& [block, tick] : from) into[block] = std::max(into[block], tick);
}

}  // namespace

RaceDetector& RaceDetector::Get() {
  static auto* const detector = new RaceDetector;  // never destroyed, as DeviceMemory
  return *detector;
}

void RaceDetector::LaunchBegins(const KernelLaunch& launch) {
  launch_tick_ = ++tick_;
  early_ = launch.may_start_early;
  if (!early_) waited_tick_ = launch_tick_;
  thread_count_ = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  block_begins_.clear();
  released_.clear();
  shared_begin_ = reinterpret_cast<uintptr_t>(shared_memory);
  shared_bytes_ = launch.shared_bytes;
  shared_.resize(std::max(shared_.size(), (shared_bytes_ + kWordBytes - 1) / kWordBytes));
  const DeviceMemory::Range range = DeviceMemory::Get().range();
  device_begin_ = reinterpret_cast<uintptr_t>(range.begin);
  device_bytes_ = range.bytes;
}

void RaceDetector::LaunchEnds() { shared_bytes_ = device_bytes_ = 0; }

void RaceDetector::BlockBegins() {
  block_begin_tick_ = block_tick_ = ++tick_;
  block_begins_.push_back(block_begin_tick_);
  seen_.clear();
  for (int i = 0; i < thread_count_; ++i) threads_[i] = {};
}

void RaceDetector::Fence() {
  Thread& thread = threads_[static_cast<size_t>(thread_)];
  thread.fence_tick = ++tick_;
  Merge(seen_, thread.acquired);
}

void RaceDetector::AccessShared(Kind kind, size_t offset, size_t bytes, const void* code) {
  in_shared_ = true;
  const uint32_t place = ProgramOffset(code);
  const size_t end = std::min(offset + bytes, shared_bytes_);
  while (offset < end) {
    const size_t first = offset % kWordBytes;
    const size_t count = std::min(kWordBytes - first, end - offset);
    AccessWord(shared_[offset / kWordBytes], kind, ((1u << count) - 1) << first, place);
    offset += count;
  }
}

void RaceDetector::AccessDevice(Kind kind, size_t offset, size_t bytes, const void* code) {
  in_shared_ = false;
  const uint32_t place = ProgramOffset(code);
  if (kind == Kind::kAtomic) ReleaseAndAcquire(offset);
  const size_t end = offset + bytes;
  while (offset < end) {
    const size_t word = offset / kWordBytes;
    const size_t page = word / kPageWords;
    if (page >= device_pages_.size()) device_pages_.resize(page + 1);
    if (device_pages_[page] == nullptr) device_pages_[page] = std::make_unique<Word[]>(kPageWords);
    const size_t first = offset % kWordBytes;
    const size_t count = std::min(kWordBytes - first, end - offset);
    AccessWord(device_pages_[page][word % kPageWords], kind, ((1u << count) - 1) << first, place);
    offset += count;
  }
}

void RaceDetector::AccessWord(Word& word, Kind kind, uint64_t bytes, uint32_t code) {
  const Stamp now = {.tick = tick_,
                     .thread = static_cast<uint64_t>(thread_),
                     .bytes = bytes,
                     .atomic = kind == Kind::kAtomic};
  if (early_ && !in_shared_ && !HasWaitedForPreviousKernel()) {
    const bool by_kernel = word.write.tick >= waited_tick_ && word.write.tick < launch_tick_;
    if (kind != Kind::kRead || (by_kernel && (word.write.bytes & bytes) != 0)) {
      FailOf(word, word.write, kind, code);
    }
  }
  if (Races(word.write, now)) FailOf(word, word.write, kind, code);
  if (kind != Kind::kRead) {
    if (Races(word.read, now)) FailOf(word, word.read, kind, code);
    word.write = now;
    word.write_code = code;
  } else {
    word.read = Merged(word.read, now);
    word.read_code = code;
  }
}

// A read and those before it that nothing has ordered before this thread: of the bytes that all of
// them read, by how many.
RaceDetector::Stamp RaceDetector::Merged(const Stamp& before, Stamp now) const {
  const bool same_thread =
      before.thread == now.thread && before.others == kNone && before.tick >= block_begin_tick_;
  if (same_thread) {
    if (before.tick == now.tick) now.bytes |= before.bytes;
    return now;
  }
  if ((before.bytes & now.bytes) == 0 || IsOrdered(before)) return now;
  const uint64_t apart = before.tick < block_begin_tick_ ? kInLaunch
                         : WarpOf(before) != WarpOf(now) ? kInBlock
                                                         : kInWarp;
  now.bytes &= before.bytes;
  now.others = std::max<uint64_t>(apart, before.others);
  return now;
}

bool RaceDetector::Races(const Stamp& before, const Stamp& now) const {
  return (before.bytes & now.bytes) != 0 && !(before.atomic && now.atomic) && !IsOrdered(before);
}

// Whether the running thread has the access behind it.
bool RaceDetector::IsOrdered(const Stamp& before) const {
  const uint64_t begin = in_shared_ ? block_begin_tick_ : launch_tick_;
  if (before.tick < begin) return true;
  if (before.others == kInLaunch) return false;
  if (before.tick < block_begin_tick_) {
    const auto seen = seen_.find(BlockOf(before.tick));
    return seen != seen_.end() && before.tick < seen->second;
  }
  if (before.tick < block_tick_) return true;
  if (before.others == kInBlock || WarpOf(before) != static_cast<size_t>(thread_ / kLanes)) {
    return false;
  }
  if (before.tick < warp_tick_[WarpOf(before)]) return true;
  return before.others == kNone && before.thread == static_cast<uint64_t>(thread_);
}

// An atomic operation shows what the block did before its last barrier, if the thread made a fence
// since, and what the block had seen of others; it brings what others have shown there.
void RaceDetector::ReleaseAndAcquire(size_t offset) {
  Thread& thread = threads_[static_cast<size_t>(thread_)];
  Seen& shown = released_[offset];
  Merge(thread.acquired, shown);
  if (thread.fence_tick > block_tick_) {
    Merge(shown, seen_);
    shown[block_begins_.size() - 1] = block_tick_;
  }
}

size_t RaceDetector::BlockOf(uint64_t tick) const {
  const auto behind = std::upper_bound(block_begins_.begin(), block_begins_.end(), tick);
  return static_cast<size_t>(behind - block_begins_.begin()) - 1;
}

void RaceDetector::FailOf(const Word& word, const Stamp& before, Kind kind, uint32_t code) const {
  const bool was_read = &before == &word.read;
  const uint32_t code_before = was_read ? word.read_code : word.write_code;
  const char* const memory = in_shared_ ? "shared" : "device";
  std::fprintf(stderr, "cuda shim: addr2line -e PROGRAM %#x %#x tells where\n", code, code_before);
  if (!in_shared_ && early_ && !HasWaitedForPreviousKernel()) {
    Fail("race: block (%u,%u,%u): thread %d %s %s memory, and has not waited for the kernel before",
         blockIdx.x, blockIdx.y, blockIdx.z, thread_, NameOf(kind), memory);
  }
  char whose[40] = "of this block";
  if (before.tick < block_begin_tick_) {
    std::snprintf(whose, sizeof(whose), "of the launch's block %zu", BlockOf(before.tick));
  }
  Fail("race: block (%u,%u,%u): thread %d %s %s memory that thread %d %s %s%s, unordered",
       blockIdx.x, blockIdx.y, blockIdx.z, thread_, NameOf(kind), memory,
       static_cast<int>(before.thread), whose, was_read ? "read" : "wrote",
       before.others == kNone ? "" : ", as others did");
}

}  // namespace cuda_shim
}  // namespace baton
