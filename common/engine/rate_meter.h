// Measures events per second over the last 4 seconds.
#pragma once

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace baton {

// Counts events in eight slots of half a second each. The rate includes the current slot, which is
// not full yet. Not thread-safe.
class RateMeter {
 public:
  void Add(absl::Time now, int64_t count) {
    Advance(now);
    slots_[SlotIndex(current_)] += count;
  }

  double PerSecond(absl::Time now) {
    Advance(now);
    int64_t sum = 0;
    for (int64_t slot : slots_) sum += slot;
    return static_cast<double>(sum) / (kSlots * 0.5);
  }

 private:
  static constexpr int64_t kSlots = 8;

  static size_t SlotIndex(int64_t slot) { return static_cast<size_t>(slot % kSlots); }

  void Advance(absl::Time now) {
    const int64_t slot = absl::ToUnixMillis(now) / 500;
    if (slot - current_ >= kSlots) {
      slots_ = {};
      current_ = slot;
    }
    while (current_ < slot) slots_[SlotIndex(++current_)] = 0;
  }

  int64_t current_ = 0;  // number of the current slot: half seconds since the epoch
  std::array<int64_t, kSlots> slots_ = {};
};

}  // namespace baton
