#include "common/net/audit_log.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(AuditLog, WritesABoundedNumberOfLinesASecondAndTellsHowManyItLeftOut) {
  AuditLog log;
  const absl::Time start = absl::FromUnixSeconds(1000);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) log.Refused("/a.B/C", "peer", "role", start);
  const std::string flood = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(flood.begin(), flood.end(), '\n'), AuditLog::kLinesPerSecond);
  EXPECT_THAT(flood, HasSubstr("audit: refused method='/a.B/C' peer='peer' reason='role'"));

  ::testing::internal::CaptureStderr();
  log.Refused("/a.B/C", "peer", "role", start + absl::Seconds(1));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("left_out=980"));
}

TEST(AuditLog, KeepsTextFromOutsideInOneShortLine) {
  AuditLog log;
  ::testing::internal::CaptureStderr();
  log.Refused("/a\n'B", std::string(100000, 'p'), "role", absl::Now());
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_LT(line.size(), 1000u);
}

}  // namespace
}  // namespace baton
