#include "router/planner/steady_count.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr absl::Duration kHold = absl::Minutes(2);

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(SteadyCount, IsTheSmallestNumberThatSuffices) {
  for (const auto& [needed, count] :
       {std::pair{0.0, 1u}, {0.2, 1u}, {1.0, 1u}, {1.04, 1u}, {1.1, 2u}, {3.9, 4u}, {7.5, 8u}}) {
    EXPECT_EQ(SteadyCount(kHold).Take(needed, At(0)), count) << needed;
  }
  EXPECT_EQ(SteadyCount(kHold).Take(1e12, At(0)), SteadyCount::kMost);
}

TEST(SteadyCount, RisesAtOnceAndFallsOnlyAfterTheHold) {
  SteadyCount count(kHold);
  EXPECT_EQ(count.Take(2, At(0)), 2u);
  EXPECT_EQ(count.Take(5, At(200)), 5u);
  for (int second = 201; second <= 320; ++second) EXPECT_EQ(count.Take(1.5, At(second)), 5u);
  EXPECT_EQ(count.Take(1.5, At(321)), 2u) << "the need of 5 is more than two minutes ago";
}

TEST(SteadyCount, FallsToWhatWouldHaveSufficedAllTheTime) {
  SteadyCount count(kHold);
  count.Take(8, At(0));
  uint32_t last = 8;
  for (int second = 1; second <= 400; ++second) {
    last = count.Take(second % 60 == 0 ? 3.6 : 2, At(second));
  }
  EXPECT_EQ(last, 4u) << "3.6 comes again each minute";
}

TEST(SteadyCount, ANeedThatVariesALittleNeverMovesItToAndFro) {
  for (double middle = 0.5; middle < 12; middle += 0.05) {
    SteadyCount count(kHold);
    uint32_t last = count.Take(middle, At(0));
    int falls = 0, rises_after_a_fall = 0;
    for (int second = 1; second < 1800; ++second) {
      const double noise = 0.045 * ((second * 7919) % 201 - 100) / 100;
      const uint32_t now = count.Take(middle * (1 + noise), At(second));
      falls += now < last ? 1 : 0;
      rises_after_a_fall += falls > 0 && now > last ? 1 : 0;
      last = now;
    }
    EXPECT_EQ(rises_after_a_fall, 0) << middle;
    EXPECT_LE(falls, 1) << middle;
  }
}

TEST(SteadyCount, MoreLoadNeverGetsFewer) {
  SteadyCount one(kHold), more(kHold);
  uint32_t random = 1;
  for (int second = 0; second < 3000; ++second) {
    random = random * 1664525 + 1013904223;
    const double needed = 6.0 * (random >> 8) / (1 << 24);
    random = random * 1664525 + 1013904223;
    const double extra = second % 500 < 250 ? 1.0 * (random >> 8) / (1 << 24) : 0;
    EXPECT_LE(one.Take(needed, At(second)), more.Take(needed + extra, At(second))) << second;
  }
}

}  // namespace
}  // namespace baton
