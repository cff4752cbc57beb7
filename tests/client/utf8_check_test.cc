#include "client/utf8_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

std::string ErrorOf(absl::string_view text) { return std::string(CheckUtf8(text).message()); }

TEST(CheckUtf8, TakesEveryCharacter) {
  EXPECT_TRUE(CheckUtf8("").ok());
  EXPECT_TRUE(CheckUtf8(absl::string_view("a\0b", 3)).ok());
  EXPECT_TRUE(CheckUtf8("\u0080\u07ff\u0800\uffff\U00010000\U0010ffff").ok());
}

TEST(CheckUtf8, NamesTheFirstByteThatIsWrong) {
  EXPECT_TRUE(absl::IsInvalidArgument(CheckUtf8("ab\xff")));
  EXPECT_EQ(ErrorOf("ab\xff"), "is not UTF-8: byte 3 is 0xff");
  EXPECT_EQ(ErrorOf("\x80\xff"), "is not UTF-8: byte 1 is 0x80");
  EXPECT_EQ(ErrorOf("\u4e16\xc0\x80"), "is not UTF-8: byte 4 is 0xc0");
}

// Cut short, an overlong form, a surrogate, and what is beyond Unicode.
TEST(CheckUtf8, RefusesEveryFormThatIsNone) {
  for (const absl::string_view bad :
       {"\xc3", "\xe4\xb8", "\xf0\x9f\x98", "\xe4\xb8z", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(ErrorOf(absl::StrCat("a", bad)).rfind("is not UTF-8: byte 2 is 0x", 0), 0u)
        << ErrorOf(bad);
  }
}

}  // namespace
}  // namespace baton
