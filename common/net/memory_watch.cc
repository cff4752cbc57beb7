#include "common/net/memory_watch.h"

#include <malloc.h>

#include "common/base/log.h"

namespace baton {
namespace {

constexpr double kShortFrom = 0.85, kFullFrom = 0.95;
constexpr absl::Duration kTrimInterval = absl::Seconds(1);

MemoryLevel LevelOf(double part) {
  if (part >= kFullFrom) return MemoryLevel::kFull;
  return part >= kShortFrom ? MemoryLevel::kShort : MemoryLevel::kEnough;
}

}  // namespace

MemoryLevel MemoryWatch::Look(absl::Time now) {
  double part = read_().part();
  if (LevelOf(part) != MemoryLevel::kEnough && now >= next_trim_) {
    next_trim_ = now + kTrimInterval;
    malloc_trim(0);
    part = read_().part();
  }
  const MemoryLevel level = LevelOf(part);
  if (level_.exchange(level) != level) {
    LogWarning("{}: {} % of the memory that this process may have is taken",
               level == MemoryLevel::kEnough  ? "there is enough memory again"
               : level == MemoryLevel::kShort ? "short of memory, requests are refused"
                                              : "no memory is left, connections are closed",
               static_cast<int>(part * 100));
  }
  return level;
}

}  // namespace baton
