#include "prefill_worker/flight_limit.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gtest/gtest.h"

namespace baton {
namespace {

// How long the last byte of a flight is under way on a link that is used by nobody else.
absl::Duration Latency(double flight_bytes, double bytes_per_second, absl::Duration delay) {
  return delay + absl::Seconds(flight_bytes / bytes_per_second);
}

TEST(FlightLimit, ComesToHalfASecondOfTheLinkAndNeverMuchAboveIt) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  for (int round = 0; round < 200; ++round) {
    const double rate = 125e3 * std::pow(1e4, unit(random));  // 1 Mbit/s to 10 Gbit/s
    const absl::Duration delay = absl::Milliseconds(300 * unit(random));
    FlightLimit limit;
    for (int ack = 0; ack < 50; ++ack) {
      const auto flight = static_cast<double>(limit.bytes());
      ASSERT_LE(flight / rate, 1.2) << rate << " bytes a second, " << delay;
      limit.Acknowledged(limit.bytes(), Latency(flight, rate, delay));
    }
    EXPECT_GE(static_cast<double>(limit.bytes()) / rate, 0.45) << rate << ", " << delay;
  }
}

TEST(FlightLimit, OneAnswerAllowsAMebibyteAtFirstAndThenFourTimesItsFlightAndNoMore) {
  FlightLimit limit;
  limit.Acknowledged(FlightLimit::kFirstBytes, absl::Microseconds(100));
  EXPECT_EQ(limit.bytes(), uint64_t{1} << 20);
  limit.Acknowledged(1000, absl::Microseconds(100));
  EXPECT_EQ(limit.bytes(), uint64_t{1} << 20) << "little was sent, and little is shown";
  limit.Acknowledged(uint64_t{1} << 20, absl::Microseconds(100));
  EXPECT_EQ(limit.bytes(), uint64_t{4} << 20);
}

TEST(FlightLimit, FollowsALinkThatBecomesSlower) {
  FlightLimit limit;
  for (int ack = 0; ack < 10; ++ack) limit.Acknowledged(limit.bytes(), absl::Milliseconds(5));
  EXPECT_GT(limit.bytes(), uint64_t{16} << 20);
  for (int ack = 0; ack < 10; ++ack) {
    const uint64_t flight = std::min(limit.bytes(), uint64_t{16} << 20);
    limit.Acknowledged(flight, Latency(static_cast<double>(flight), 1e6, absl::ZeroDuration()));
  }
  EXPECT_LE(limit.bytes(), 1'200'000u);
}

TEST(FlightLimit, ALinkWithALongDelayIsStillFilled) {
  FlightLimit limit;
  const absl::Duration delay = absl::Milliseconds(600);
  for (int ack = 0; ack < 50; ++ack) {
    limit.Acknowledged(limit.bytes(), Latency(static_cast<double>(limit.bytes()), 10e6, delay));
  }
  EXPECT_GE(static_cast<double>(limit.bytes()), 10e6 * 0.4) << "half a second beyond the delay";
}

TEST(FlightLimit, PatienceFollowsTheSlowestAnswerLatelyWithinItsBounds) {
  FlightLimit limit;
  EXPECT_EQ(limit.Patience(), absl::Seconds(4)) << "nothing is known";
  limit.Acknowledged(1000, absl::Milliseconds(1200));
  EXPECT_EQ(limit.Patience(), absl::Milliseconds(4800));
  limit.Acknowledged(1000, absl::Seconds(30));
  EXPECT_EQ(limit.Patience(), absl::Seconds(5));
  for (int ack = 0; ack < 100; ++ack) limit.Acknowledged(1000, absl::Milliseconds(1));
  EXPECT_EQ(limit.Patience(), absl::Seconds(2));
}

}  // namespace
}  // namespace baton
