// Limits the rows of a step so that no sequence waits long for its end.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

#include "common/engine/schedule.h"

namespace baton {

// Learns the speed of prefill from the steps themselves. It changes how a prompt is cut into
// chunks, never what comes out. Not thread-safe.
class StepSizer {
 public:
  // `max_duration` InfiniteDuration: rows() is always max_rows. REQUIRES: max_rows >= kChunkTokens.
  StepSizer(int max_rows, absl::Duration max_duration)
      : max_rows_(max_rows), max_duration_(max_duration) {}

  // The most rows of the next step, in [kChunkTokens, max_rows].
  int rows() const {
    if (max_duration_ == absl::InfiniteDuration()) return max_rows_;
    const double wanted = rows_per_second_ * absl::ToDoubleSeconds(max_duration_);
    return std::clamp(static_cast<int>(std::min<double>(wanted, max_rows_)), kChunkTokens,
                      max_rows_);
  }

  // A step of `rows` took `duration`. Steps of fewer than kChunkTokens rows are ignored: most of
  // them are decodes.
  void Observe(int rows, absl::Duration duration) {
    if (rows < kChunkTokens || duration <= absl::ZeroDuration()) return;
    const double measured = rows / absl::ToDoubleSeconds(duration);
    rows_per_second_ = rows_per_second_ == 0 ? measured : (rows_per_second_ + measured) / 2;
  }

 private:
  const int max_rows_;
  const absl::Duration max_duration_;
  double rows_per_second_ = 0;  // 0: not measured yet, and steps are one chunk
};

}  // namespace baton
