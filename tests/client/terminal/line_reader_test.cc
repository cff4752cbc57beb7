#include "client/terminal/line_reader.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(StreamLinesTest, EveryLineComesWithoutItsNewlineTheLastOneToo) {
  std::istringstream in("one\n\ntwo");
  StreamLines lines(in);
  EXPECT_EQ(lines.Read(">>> "), "one");
  EXPECT_EQ(lines.Read(">>> "), "");
  EXPECT_EQ(lines.Read(">>> "), "two");
  EXPECT_EQ(lines.Read(">>> "), std::nullopt);
}

TEST(StreamLinesTest, ALineThatTheTerminalMayHaveCutIsSaidAndNotReturned) {
  std::istringstream in("1234567\n12345678\n123456789\nnext\n");
  StreamLines lines(in, 8);
  testing::internal::CaptureStderr();
  EXPECT_EQ(lines.Read(">>> "), "1234567");
  EXPECT_EQ(lines.Read(">>> "), "next");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("cuts lines at 8 bytes, and this one is not sent"));
}

}  // namespace
}  // namespace baton
