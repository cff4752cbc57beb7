#include "common/jinja/string_literal.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton::jinja {
namespace {

using std::string_literals::operator""s;

std::string Unescaped(absl::string_view body) {
  const auto text = UnescapeStringLiteral(body);
  return text.ok() ? *text : absl::StrCat("error: ", text.status().message());
}

TEST(StringLiteral, LeavesPlainTextAsItIs) {
  for (const absl::string_view body : {"", "abc", "世\xff", "\"'"})
    EXPECT_EQ(Unescaped(body), body);
}

TEST(StringLiteral, KnowsTheOneLetterEscapesOfPython) {
  EXPECT_EQ(Unescaped(R"(\n\t\r\a\b\f\v\\\'\")"), "\n\t\r\a\b\f\v\\'\"");
}

TEST(StringLiteral, AnUnknownEscapeKeepsItsBackslash) {
  EXPECT_EQ(Unescaped(R"(\q\8\ )"), R"(\q\8\ )");
}

TEST(StringLiteral, ABackslashBeforeANewlineJoinsTheLines) { EXPECT_EQ(Unescaped("a\\\nb"), "ab"); }

TEST(StringLiteral, ABackslashAtTheEndStandsForItself) { EXPECT_EQ(Unescaped("a\\"), "a\\"); }

// As in Python, \351 and \xe9 are characters, not bytes.
TEST(StringLiteral, OctalsHaveAtMostThreeDigits) {
  EXPECT_EQ(Unescaped(R"(\0\18\1011\351)"), "\0\0018A1\u00e9"s);
}

TEST(StringLiteral, HexadecimalEscapesHaveTheirExactNumberOfDigits) {
  EXPECT_EQ(Unescaped(R"(\x411\u4e16b\U0001F600c)"), "A1\u4e16b\U0001F600c");
  for (const absl::string_view body : {R"(\x4)", R"(\x4g)", R"(\u123)", R"(\U0001F60)", R"(\x)"}) {
    EXPECT_EQ(Unescaped(body), "error: an escape has too few hexadecimal digits") << body;
  }
}

TEST(StringLiteral, RefusesSurrogatesAndWhatIsBeyondUnicode) {
  for (const absl::string_view body : {R"(\ud800)", R"(\udfff)", R"(\U00110000)"}) {
    EXPECT_EQ(Unescaped(body), "error: an escape sequence does not stand for a Unicode character")
        << body;
  }
  EXPECT_EQ(Unescaped(R"(\ud7ff\ue000\U0010ffff)"), "\ud7ff\ue000\U0010ffff");
}

TEST(StringLiteral, RefusesNamedCharacters) {
  EXPECT_EQ(Unescaped(R"(\N{BULLET})"), "error: unsupported escape '\\N'");
}

TEST(AppendUtf8, TakesOneByteMoreAtEachBoundary) {
  const auto utf8 = [](uint32_t point) {
    std::string out = "-";
    AppendUtf8(point, out);
    return out;
  };
  EXPECT_EQ(utf8(0x7f), "-\x7f");
  EXPECT_EQ(utf8(0x80), "-\xc2\x80");
  EXPECT_EQ(utf8(0x7ff), "-\xdf\xbf");
  EXPECT_EQ(utf8(0x800), "-\xe0\xa0\x80");
  EXPECT_EQ(utf8(0xffff), "-\xef\xbf\xbf");
  EXPECT_EQ(utf8(0x10000), "-\xf0\x90\x80\x80");
  EXPECT_EQ(utf8(0x10ffff), "-\xf4\x8f\xbf\xbf");
}

}  // namespace
}  // namespace baton::jinja
