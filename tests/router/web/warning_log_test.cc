#include "router/web/warning_log.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(WarningLog, EachWarningIsLoggedOnceAndOnlySoManyAre) {
  WarningLog log;
  EXPECT_TRUE(log.Log("q1", "left out: a"));
  EXPECT_FALSE(log.Log("q2", "left out: a"));
  for (size_t i = 1; i < WarningLog::kMaxWarnings; ++i) {
    EXPECT_TRUE(log.Log("q3", absl::StrCat("left out: ", i)));
  }
  EXPECT_FALSE(log.Log("q4", "left out: one more"));
}

}  // namespace
}  // namespace baton
