// Limits the log lines of one source of events.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/time/time.h"

#include "common/base/token_bucket.h"

namespace baton {

// Pure; not thread-safe. A worker that starts, is lost and comes back causes a handful of lines.
class LogBudget {
 public:
  static constexpr double kBurst = 20;     // lines at once
  static constexpr double kPerSecond = 1;  // lines in the long run

  // Returns whether a line may be written now. If not, it counts as left out.
  bool Take(absl::Time now) {
    if (bucket_.TryTake(1, now)) return true;
    ++left_out_;
    return false;
  }
  // Returns how many lines were left out since the last call.
  uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  TokenBucket bucket_{kPerSecond, kBurst};
  uint64_t left_out_ = 0;
};

}  // namespace baton
