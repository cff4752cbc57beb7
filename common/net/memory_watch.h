// Notices that the memory of a process comes to an end, before the system ends the process.
#pragma once

#include <atomic>
#include <functional>

#include "absl/time/time.h"

#include "common/base/free_memory.h"

namespace baton {

enum class MemoryLevel {
  kEnough,
  kShort,  // from 85 % on: nothing new is taken
  kFull,   // from 95 % on: what was taken is given up
};

class MemoryWatch {
 public:
  // `read` tells what the process uses.
  explicit MemoryWatch(std::function<MemoryUse()> read = ReadMemoryUse) : read_(std::move(read)) {}

  // Looks anew, and returns the level. Memory that a flood has left in the heap counts as taken,
  // so at kShort it is first given back, once a second at most. To be called on one thread.
  MemoryLevel Look(absl::Time now);
  // What the last look has found. Thread-safe.
  MemoryLevel level() const { return level_; }

 private:
  const std::function<MemoryUse()> read_;
  std::atomic<MemoryLevel> level_ = MemoryLevel::kEnough;
  absl::Time next_trim_ = absl::InfinitePast();
};

}  // namespace baton
