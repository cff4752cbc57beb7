#include "router/fleet/reachability.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

UnreachableReason Refused() { return {.kind = UnreachableKind::kRefused, .text = "refused"}; }
UnreachableReason NoSuchHost() { return {.kind = UnreachableKind::kNoSuchHost, .text = "no host"}; }

// A worker whose streams end twice a second, in simulated time.
class ReachabilityTest : public testing::Test {
 protected:
  // Returns the lines of the log meanwhile.
  std::vector<std::string> EndFor(absl::Duration duration, const UnreachableReason& reason) {
    std::vector<std::string> lines;
    for (const absl::Time until = now_ + duration; now_ < until;) {
      reach_.Opened(now_);
      reach_.Ended(reason, now_);
      Wait(absl::Milliseconds(500), lines);
    }
    return lines;
  }
  void Wait(absl::Duration duration, std::vector<std::string>& lines) {
    for (const absl::Time until = now_ + duration; now_ < until;) {
      if (auto line = reach_.TakeLine(now_); line.has_value()) lines.push_back(*line);
      now_ += absl::Milliseconds(250);
    }
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Reachability reach_;
};

TEST_F(ReachabilityTest, AReasonThatLastsIsLoggedOnceAndAgainEveryFiveMinutes) {
  EXPECT_THAT(EndFor(Reachability::kGrace, Refused()), IsEmpty()) << "it may just be starting";
  EXPECT_EQ(reach_.why(), "refused");
  EXPECT_THAT(EndFor(absl::Minutes(4), Refused()), ElementsAre("is not reached: refused"));
  EXPECT_THAT(EndFor(absl::Minutes(11), Refused()),
              ElementsAre("is not reached: refused", "is not reached: refused"));
}

TEST_F(ReachabilityTest, AnotherReasonIsLoggedAtOnce) {
  EndFor(absl::Seconds(10), Refused());
  EXPECT_THAT(EndFor(absl::Seconds(10), NoSuchHost()), ElementsAre("is not reached: no host"));
  EXPECT_EQ(reach_.why(), "no host");
}

TEST_F(ReachabilityTest, ReasonsThatTakeTurnsFillNoLog) {
  std::vector<std::string> lines;
  for (int i = 0; i < 300; ++i) {
    for (const UnreachableReason& reason : {Refused(), NoSuchHost()}) {
      const std::vector<std::string> more = EndFor(absl::Seconds(1), reason);
      lines.insert(lines.end(), more.begin(), more.end());
    }
  }
  EXPECT_LE(lines.size(), 42u) << "two in half a minute";
}

TEST_F(ReachabilityTest, AStreamOnWhichNothingIsReceivedIsSilent) {
  std::vector<std::string> lines;
  reach_.Opened(now_);
  Wait(Reachability::kSilentAfter, lines);
  EXPECT_THAT(lines, IsEmpty());
  Wait(absl::Minutes(4), lines);
  EXPECT_THAT(lines, ElementsAre(StartsWith("is not reached: the port is open and silent")));
}

TEST_F(ReachabilityTest, AWorkerThatIsHeardIsReachedAndItsNextSilenceIsANewOne) {
  EndFor(absl::Minutes(1), Refused());
  reach_.Opened(now_);
  reach_.Heard();
  EXPECT_EQ(reach_.why(), "");
  std::vector<std::string> lines;
  Wait(absl::Hours(1), lines);
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_THAT(EndFor(absl::Minutes(1), Refused()), ElementsAre("is not reached: refused"));
}

TEST_F(ReachabilityTest, AWorkerThatIsNeverUsedIsLoggedAgainWhileItAnswers) {
  std::vector<std::string> lines;
  reach_.Opened(now_);
  reach_.Heard();
  reach_.Refused("has another tokenizer", now_);
  Wait(absl::Minutes(11), lines);
  EXPECT_THAT(lines, ElementsAre("is still not used: it has another tokenizer",
                                 "is still not used: it has another tokenizer"));
  reach_.Refused("", now_);
  lines.clear();
  Wait(absl::Minutes(11), lines);
  EXPECT_THAT(lines, IsEmpty());
}

}  // namespace
}  // namespace baton
