#include "common/access/audit_log.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr AuditLog::Refusal kRefusal{
    .method = "/a.B/C", .peer = "alice", .address = "ipv4:10.0.0.7:50000", .reason = "role"};

TEST(AuditLog, WritesABoundedNumberOfLinesASecondAndTellsHowManyItLeftOut) {
  AuditLog log;
  const absl::Time start = absl::FromUnixSeconds(1000);
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 1000; ++i) log.Refused(kRefusal, start);
  const std::string flood = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(flood.begin(), flood.end(), '\n'), AuditLog::kLinesPerSecond);
  EXPECT_THAT(flood, HasSubstr("audit: refused method='/a.B/C' peer='alice' "
                               "address='ipv4:10.0.0.7:50000' reason='role'"));

  ::testing::internal::CaptureStderr();
  log.Refused(kRefusal, start + absl::Seconds(1));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("left_out=980"));
}

TEST(AuditLog, KeepsTextFromOutsideInOneShortLine) {
  AuditLog log;
  ::testing::internal::CaptureStderr();
  const std::string long_text(100000, 'p');
  log.Refused({.method = "/a\n'B", .peer = long_text, .address = long_text, .reason = "role"},
              absl::Now());
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_LT(line.size(), 1000u);
}

}  // namespace
}  // namespace baton
