#include "client/doctor/finding.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

Finding WithVerdict(Verdict verdict) { return {.check = "a.b", .verdict = verdict}; }

TEST(Finding, EveryVerdictHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const Verdict verdict : kAllVerdicts) names.insert(VerdictName(verdict));
  EXPECT_EQ(names, (std::set<std::string>{"ok", "warning", "failed", "skipped"}));
  EXPECT_EQ(std::string(VerdictName(Verdict::kSkipped)), "skipped");
}

TEST(Finding, OneThatFailedIsEnoughAndNoOtherCounts) {
  EXPECT_FALSE(AnyFailed({}));
  Findings findings;
  for (const Verdict verdict : {Verdict::kOk, Verdict::kWarning, Verdict::kSkipped}) {
    findings.push_back(WithVerdict(verdict));
  }
  EXPECT_FALSE(AnyFailed(findings));
  findings.insert(findings.begin() + 1, WithVerdict(Verdict::kFailed));
  EXPECT_TRUE(AnyFailed(findings));
}

}  // namespace
}  // namespace baton
