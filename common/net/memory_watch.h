// Notices that the memory of a process comes to an end, before the system ends the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/time/time.h"

#include "common/base/free_memory.h"

namespace baton {

enum class MemoryLevel {
  kEnough,
  kShort,  // from 85 % on: nothing new is taken
  kFull,   // from 95 % on: what was taken is given up
};

// Returns a function that reads the memory use of this process against the limit of its control
// groups. Without such a limit, a quarter of the machine's memory is the limit, and only this
// process counts.
std::function<MemoryUse()> MemoryUseReader(MemoryGroups groups = MemoryGroups());
// Returns the bytes that malloc holds free instead of giving them back to the system.
uint64_t SpareHeapBytes();

class MemoryWatch {
 public:
  // `read` returns the memory use, and `spare` the part of it that malloc could give back.
  explicit MemoryWatch(std::function<MemoryUse()> read = MemoryUseReader(),
                       std::function<uint64_t()> spare = SpareHeapBytes)
      : read_(std::move(read)), spare_(std::move(spare)) {}

  // Reads the use again, and returns the level. Memory that a flood has left in the heap counts as
  // taken, so from kShort on it is given back first, at most once a second. Below kShort it is
  // given back if it is at least 32 MiB and the process has grown by as much since the last time.
  // Always called on the same thread.
  MemoryLevel Look(absl::Time now);
  // The level that the last look has found. Thread-safe.
  MemoryLevel level() const { return level_; }

 private:
  bool HasMuchToGiveBack(const MemoryUse& use, absl::Time now);

  const std::function<MemoryUse()> read_;
  const std::function<uint64_t()> spare_;
  std::atomic<MemoryLevel> level_ = MemoryLevel::kEnough;
  absl::Time next_trim_ = absl::InfinitePast();
  absl::Time next_heap_look_ = absl::InfinitePast();
  uint64_t least_bytes_ = 0;  // least use since memory was last given back
};

}  // namespace baton
