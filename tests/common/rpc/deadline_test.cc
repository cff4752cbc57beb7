#include "common/rpc/deadline.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Deadline, IsAsFarAwayAsItWasMade) {
  for (const absl::Duration timeout : {absl::Seconds(30), -absl::Seconds(30), absl::Hours(24)}) {
    const gpr_timespec deadline = DeadlineAfter(timeout);
    EXPECT_EQ(deadline.clock_type, GPR_CLOCK_MONOTONIC);
    EXPECT_LE(TimeUntil(deadline), timeout);
    EXPECT_GT(TimeUntil(deadline), timeout - absl::Seconds(10));
  }
}

TEST(Deadline, NoneIsInfinitelyFarAway) {
  EXPECT_EQ(
      gpr_time_cmp(DeadlineAfter(absl::InfiniteDuration()), gpr_inf_future(GPR_CLOCK_MONOTONIC)),
      0);
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    EXPECT_EQ(TimeUntil(gpr_inf_future(clock)), absl::InfiniteDuration());
  }
}

}  // namespace
}  // namespace baton
