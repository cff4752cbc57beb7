#include "common/base/plain_text.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(WithoutByteOrderMark, LeavesOutOneMarkAtTheBeginning) {
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb\xbf"
                                 "a"),
            "a");
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb\xbf"), "");
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb\xbf\xef\xbb\xbf"), "\xef\xbb\xbf");
  EXPECT_EQ(WithoutByteOrderMark("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
  EXPECT_EQ(WithoutByteOrderMark("\xef\xbb"), "\xef\xbb");
}

TEST(WithUnixLineEnds, ReplacesOnlyWhatEndsALine) {
  EXPECT_EQ(WithUnixLineEnds("a\r\nb\r\n\r\n"), "a\nb\n\n");
  EXPECT_EQ(WithUnixLineEnds("a\rb\n\r"), "a\rb\n\r");
  EXPECT_EQ(WithUnixLineEnds("\r\r\n"), "\r\n");
}

}  // namespace
}  // namespace baton
