#include "common/base/utf8.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Utf8Unit, KnowsEveryCharacterOfUnicode) {
  for (uint32_t code_point = 0; code_point < 0x110000; ++code_point) {
    if (code_point >= 0xD800 && code_point < 0xE000) continue;
    std::string bytes;
    const auto push = [&](uint32_t byte) { bytes.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
      push(code_point);
    } else if (code_point < 0x800) {
      push(0xC0 | code_point >> 6);
      push(0x80 | (code_point & 63));
    } else if (code_point < 0x10000) {
      push(0xE0 | code_point >> 12);
      push(0x80 | (code_point >> 6 & 63));
      push(0x80 | (code_point & 63));
    } else {
      push(0xF0 | code_point >> 18);
      push(0x80 | (code_point >> 12 & 63));
      push(0x80 | (code_point >> 6 & 63));
      push(0x80 | (code_point & 63));
    }
    const Utf8Unit unit = NextUtf8Unit(bytes + "\x80");
    ASSERT_EQ(unit.kind, Utf8Unit::Kind::kCharacter) << code_point;
    ASSERT_EQ(unit.size, bytes.size()) << code_point;
  }
}

TEST(IsUtf8, OnlyWhereAllCharactersAreWhole) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("Gr\u00fc\u00dfe \U0001F600"));
  for (const char* bad : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(bad)) << testing::PrintToString(bad);
  }
}

TEST(CodePointOf, ReadsCharactersOfEachLength) {
  EXPECT_EQ(CodePointOf("A"), 0x41u);
  EXPECT_EQ(CodePointOf("\xc2\x9b"), 0x9bu);
  EXPECT_EQ(CodePointOf("\xe2\x80\xae"), 0x202eu);
  EXPECT_EQ(CodePointOf("\xf4\x8f\xbf\xbf"), 0x10ffffu);
}

}  // namespace
}  // namespace baton
