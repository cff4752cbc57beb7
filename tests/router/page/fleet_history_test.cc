#include "router/page/fleet_history.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

absl::Time AtSecond(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

FleetPoint PointAt(double seconds, double output_tokens = 0) {
  return {.at = AtSecond(seconds), .rates = {.output_tokens = output_tokens}};
}

TEST(FleetHistory, HasAPointForEachFiveSeconds) {
  FleetHistory history;
  for (int i = 0; i <= 80; ++i) history.Tick(PointAt(i * 0.25, i));  // 20 s, four ticks a second
  const std::vector<FleetPoint> points = history.Get(AtSecond(20));
  ASSERT_EQ(points.size(), 5u);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].at, AtSecond(5.0 * static_cast<double>(i)));
    EXPECT_EQ(points[i].rates.output_tokens, 20.0 * static_cast<double>(i));
  }
}

TEST(FleetHistory, IsBoundedAndForgetsTheOldestPoint) {
  EXPECT_EQ(FleetHistory::kBound, FleetHistory::kLength / FleetHistory::kInterval);
  FleetHistory history;
  double second = 0;
  for (size_t i = 0; i < FleetHistory::kBound + 3; ++i, second += 5) history.Tick(PointAt(second));
  const double last = second - 5;
  const std::vector<FleetPoint> points = history.Get(AtSecond(last));
  ASSERT_EQ(points.size(), FleetHistory::kBound);
  EXPECT_EQ(points.front().at, AtSecond(15));
  EXPECT_EQ(points.back().at, AtSecond(last));
}

TEST(FleetHistory, PointsOlderThanFifteenMinutesAreNotReturned) {
  FleetHistory history;
  history.Tick(PointAt(0));
  history.Tick(PointAt(600));
  EXPECT_EQ(history.Get(AtSecond(900)).size(), 2u);
  ASSERT_EQ(history.Get(AtSecond(901)).size(), 1u);
  EXPECT_EQ(history.Get(AtSecond(901)).front().at, AtSecond(600));
  EXPECT_TRUE(history.Get(AtSecond(10000)).empty());
}

TEST(FleetHistory, TheTimeToFirstTokenIsTheMeanSinceThePointBefore) {
  FleetHistory history;
  history.Tick(PointAt(0));
  history.SawFirstToken(absl::Milliseconds(100));
  history.SawFirstToken(absl::Milliseconds(300));
  history.Tick(PointAt(4));  // adds no point, and leaves both to the next
  history.Tick(PointAt(5));
  history.Tick(PointAt(10));
  history.SawFirstToken(absl::Milliseconds(50));
  history.Tick(PointAt(15));
  const std::vector<FleetPoint> points = history.Get(AtSecond(15));
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[0].first_token, std::nullopt);
  EXPECT_EQ(points[1].first_token, absl::Milliseconds(200));
  EXPECT_EQ(points[2].first_token, std::nullopt) << "no first token came";
  EXPECT_EQ(points[3].first_token, absl::Milliseconds(50));
}

}  // namespace
}  // namespace baton
