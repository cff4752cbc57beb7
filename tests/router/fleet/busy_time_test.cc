#include "router/fleet/busy_time.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(BusyTime, IsTheSumOfTheTimesInWhichItWasBusy) {
  BusyTime time;
  EXPECT_EQ(time.Total(At(5)), absl::ZeroDuration());
  time.Set(true, At(10));
  EXPECT_EQ(time.Total(At(13)), absl::Seconds(3));
  time.Set(true, At(14));
  time.Set(false, At(15));
  EXPECT_EQ(time.Total(At(100)), absl::Seconds(5));
  time.Set(true, At(100));
  EXPECT_EQ(time.Total(At(101)), absl::Seconds(6));
}

}  // namespace
}  // namespace baton
