#include "common/net/memory_watch.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace baton {
namespace {

constexpr double kShortFrom = 0.85, kFullFrom = 0.95;
constexpr absl::Duration kTrimInterval = absl::Seconds(1);
// Counting spare memory takes malloc's locks, so it happens less often.
constexpr absl::Duration kHeapLookInterval = absl::Seconds(2);
constexpr uint64_t kMuchSpareBytes = uint64_t{32} << 20;
constexpr uint64_t kMachineShare = 4;  // a quarter

MemoryLevel LevelOf(double part) {
  if (part >= kFullFrom) return MemoryLevel::kFull;
  return part >= kShortFrom ? MemoryLevel::kShort : MemoryLevel::kEnough;
}

}  // namespace

std::function<MemoryUse()> MemoryUseReader(MemoryGroups groups) {
  return [groups = std::move(groups)] {
    MemoryUse use = groups.Read();
    if (use.limit_bytes == 0) {
      use.limit_bytes = groups.machine_bytes() / kMachineShare;
      use.group_bytes = use.own_bytes;
    }
    return use;
  };
}

uint64_t SpareHeapBytes() { return mallinfo2().fordblks; }

bool MemoryWatch::HasMuchToGiveBack(const MemoryUse& use, absl::Time now) {
  least_bytes_ = std::min(least_bytes_, use.own_bytes);
  if (use.own_bytes < least_bytes_ + kMuchSpareBytes || now < next_heap_look_) return false;
  next_heap_look_ = now + kHeapLookInterval;
  return spare_() >= kMuchSpareBytes;
}

MemoryLevel MemoryWatch::Look(absl::Time now) {
  MemoryUse use = read_();
  const bool is_short = LevelOf(use.part()) != MemoryLevel::kEnough;
  if ((is_short && now >= next_trim_) || HasMuchToGiveBack(use, now)) {
    next_trim_ = now + kTrimInterval;
    malloc_trim(0);
    use = read_();
    least_bytes_ = use.own_bytes;
  }
  const double part = use.part();
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
