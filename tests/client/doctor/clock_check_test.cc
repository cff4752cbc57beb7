#include "client/doctor/clock_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

// The server is `ahead`, and its answer took `round_trip`.
ClockFacts Ahead(absl::Duration ahead, absl::Duration round_trip = absl::Milliseconds(10)) {
  const absl::Time before = absl::FromUnixSeconds(1'700'000'000);
  return {.server = "router:8080",
          .before = before,
          .after = before + round_trip,
          .told = before + round_trip / 2 + ahead,
          .elapsed = round_trip};
}

Verdict Offset(const ClockFacts& facts) {
  return FindFinding(ClockFindings(facts), "clock.offset").verdict;
}

TEST(ClockFindings, AllowWhatTheRoundTripExplains) {
  EXPECT_EQ(Offset(Ahead(absl::ZeroDuration())), Verdict::kOk);
  EXPECT_EQ(Offset(Ahead(absl::Seconds(4), absl::Seconds(6))), Verdict::kOk);
  EXPECT_EQ(Offset(Ahead(absl::Seconds(4))), Verdict::kWarning);
  ClockFacts rounded = Ahead(-absl::Seconds(3));
  EXPECT_EQ(Offset(rounded), Verdict::kWarning);
  rounded.rounding = absl::Seconds(2);
  EXPECT_EQ(Offset(rounded), Verdict::kOk);
}

TEST(ClockFindings, FailWhereNewCertificatesAreNotYetValid) {
  EXPECT_EQ(Offset(Ahead(absl::Hours(3))), Verdict::kFailed);
  EXPECT_EQ(Offset(Ahead(-absl::Hours(3))), Verdict::kFailed);
  EXPECT_EQ(Offset(Ahead(absl::Minutes(4))), Verdict::kWarning);
}

TEST(ClockFindings, WarnOfAClockThatWasSetMeanwhile) {
  ClockFacts facts = Ahead(absl::ZeroDuration());
  EXPECT_EQ(FindFinding(ClockFindings(facts), "clock.steady").verdict, Verdict::kOk);
  facts.elapsed = absl::Seconds(2);
  EXPECT_EQ(FindFinding(ClockFindings(facts), "clock.steady").verdict, Verdict::kWarning);
}

}  // namespace
}  // namespace baton
