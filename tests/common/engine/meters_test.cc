#include <gtest/gtest.h>

#include "common/engine/rate_meter.h"
#include "common/engine/step_sizer.h"

namespace baton {
namespace {

TEST(RateMeter, GivesTheMeanOverFourSecondsAndForgets) {
  RateMeter meter;
  absl::Time now = absl::UnixEpoch() + absl::Hours(5);
  for (int i = 0; i < 100; ++i, now += absl::Milliseconds(100)) meter.Add(now, 7);
  EXPECT_NEAR(meter.PerSecond(now - absl::Milliseconds(1)), 70, 1);
  EXPECT_NEAR(meter.PerSecond(now + absl::Seconds(2)), 35, 10);
  EXPECT_EQ(meter.PerSecond(now + absl::Seconds(5)), 0);
}

TEST(StepSizer, BeginsWithOneChunkAndGrowsAsFarAsTheTimeAllows) {
  StepSizer sizer(512, absl::Milliseconds(100));
  EXPECT_EQ(sizer.rows(), kChunkTokens);
  for (int i = 0; i < 20; ++i) sizer.Observe(sizer.rows(), absl::Milliseconds(sizer.rows() / 2));
  EXPECT_NEAR(sizer.rows(), 200, 2);
  for (int i = 0; i < 20; ++i) sizer.Observe(64, absl::Microseconds(10));
  EXPECT_EQ(sizer.rows(), 512) << "the limit of a step";
  for (int i = 0; i < 40; ++i) sizer.Observe(64, absl::Seconds(10));
  EXPECT_EQ(sizer.rows(), kChunkTokens) << "never less than a chunk";
}

TEST(StepSizer, ADecodeStepSaysNothingAboutPrefill) {
  StepSizer sizer(512, absl::Milliseconds(100));
  sizer.Observe(1, absl::Microseconds(1));
  EXPECT_EQ(sizer.rows(), kChunkTokens);
}

TEST(StepSizer, WithoutALimitOfTimeEveryStepMayBeFull) {
  EXPECT_EQ(StepSizer(512, absl::InfiniteDuration()).rows(), 512);
}

}  // namespace
}  // namespace baton
