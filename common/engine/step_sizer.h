// How many rows a step may have so that nobody waits long for its end.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

#include "common/engine/scheduler.h"

namespace baton {

// Learns the speed of prefill from the steps themselves. Changes how a prompt is cut into chunks,
// never what comes out.
class StepSizer {
 public:
  StepSizer(int max_rows, absl::Duration max_duration)
      : max_rows_(max_rows), max_duration_(max_duration) {}

  int rows() const {
    if (max_duration_ == absl::InfiniteDuration()) return max_rows_;
    const double wanted = rows_per_second_ * absl::ToDoubleSeconds(max_duration_);
    return std::clamp(static_cast<int>(std::min<double>(wanted, max_rows_)), kChunkTokens,
                      max_rows_);
  }

  void Observe(int rows, absl::Duration duration) {
    if (rows < kChunkTokens || duration <= absl::ZeroDuration()) return;
    const double measured = rows / absl::ToDoubleSeconds(duration);
    rows_per_second_ = rows_per_second_ == 0 ? measured : (rows_per_second_ + measured) / 2;
  }

 private:
  const int max_rows_;
  const absl::Duration max_duration_;
  double rows_per_second_ = 0;  // 0: not measured; begins with one chunk
};

}  // namespace baton
