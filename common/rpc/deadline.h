// Deadlines of calls, alarms and queues of gRPC, by the monotonic clock.
#pragma once

#include "absl/time/time.h"
#include "grpc/support/time.h"

namespace baton {

// Returns the time `timeout` from now; never, if `timeout` is longer than a year.
inline gpr_timespec DeadlineAfter(absl::Duration timeout) {
  if (timeout > absl::Hours(24 * 365)) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

// Returns how long it is until `deadline`; infinite, if that is more than a year.
inline absl::Duration TimeUntil(const gpr_timespec& deadline) {
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const absl::Duration time = absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
  return time > absl::Hours(24 * 365) ? absl::InfiniteDuration() : time;
}

}  // namespace baton
