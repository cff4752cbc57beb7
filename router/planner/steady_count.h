// A whole number of workers for a need that is a fraction and never stands still.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe. The number suffices if the need is at most kTolerance above it. It rises
// at once to the smallest that suffices, and falls only to one that would have sufficed all through
// the last `hold`, with kMargin to spare. So a need that varies by less than kMargin never moves it
// to and fro.
class SteadyCount {
 public:
  static constexpr double kTolerance = 1.05;
  static constexpr double kMargin = 1.10;
  static constexpr uint32_t kMost = 10000;

  explicit SteadyCount(absl::Duration hold) : hold_(hold) {}

  // The need at `now`, which never goes back. Returns the number, at least 1 and at most kMost.
  uint32_t Take(double needed, absl::Time now);
  // Returns the smallest number that suffices for the need, at least 1 and at most kMost.
  static uint32_t Sufficing(double needed);

 private:
  struct Sample {
    absl::Time at;
    double needed;
  };
  const absl::Duration hold_;
  // The needs of the last `hold` that no larger need follows: the first is the largest.
  std::deque<Sample> falling_;
  absl::Time first_ = absl::InfiniteFuture();
  uint32_t count_ = 0;  // 0: there was no need yet
};

}  // namespace baton
