// Limits the log lines per second about unknown callers.
#pragma once

#include "absl/time/time.h"

namespace baton {

// Pure; not thread-safe.
class LineRate {
 public:
  static constexpr int kPerSecond = 20;

  // Returns whether a line may be written at `now`: the first kPerSecond lines of each second may.
  bool Take(absl::Time now) {
    if (now >= second_ + absl::Seconds(1)) {
      second_ = now;
      lines_ = 0;
    }
    if (lines_ == kPerSecond) return false;
    ++lines_;
    return true;
  }

 private:
  absl::Time second_ = absl::InfinitePast();  // when the current second began
  int lines_ = 0;                             // written in that second
};

}  // namespace baton
