#include "client/doctor/limit_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

LimitFacts Ample() {
  return {.descriptors = 1 << 20,
          .listen_backlog = 4096,
          .threads = 100000,
          .state_folder = "/home/me/.local/state",
          .state_writable = true,
          .state_free_bytes = 1 << 30};
}

Verdict OfLimits(const LimitFacts& facts, const char* check) {
  return FindFinding(LimitFindings(facts), check).verdict;
}

TEST(LimitFindings, OfAmpleOnesAreOk) {
  for (const Finding& finding : LimitFindings(Ample())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check;
  }
}

TEST(LimitFindings, TellEachThatIsTooSmall) {
  LimitFacts facts = Ample();
  facts.descriptors = 1024;
  EXPECT_EQ(OfLimits(facts, "limit.descriptors"), Verdict::kWarning);
  facts.descriptors = 64;
  EXPECT_EQ(OfLimits(facts, "limit.descriptors"), Verdict::kFailed);
  facts.descriptors = 0;
  EXPECT_EQ(OfLimits(facts, "limit.descriptors"), Verdict::kOk) << "no limit";
  facts.listen_backlog = 16;
  EXPECT_EQ(OfLimits(facts, "limit.listen_backlog"), Verdict::kWarning);
  facts.threads = 100;
  EXPECT_EQ(OfLimits(facts, "limit.threads"), Verdict::kWarning);
  facts.state_free_bytes = 0;
  EXPECT_EQ(OfLimits(facts, "limit.state_folder"), Verdict::kWarning);
  facts = Ample();
  facts.state_writable = false;
  EXPECT_EQ(OfLimits(facts, "limit.state_folder"), Verdict::kWarning);
  facts.state_folder = "";
  EXPECT_EQ(OfLimits(facts, "limit.state_folder"), Verdict::kSkipped);
}

TEST(GatherLimitFacts, KnowsThisProcess) {
  const LimitFacts facts = GatherLimitFacts();
  EXPECT_TRUE(facts.descriptors == 0 || facts.descriptors > 8);
  EXPECT_GT(facts.listen_backlog, 0);
}

}  // namespace
}  // namespace baton
