#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class TextFilters : public testing::Test {
 protected:
  std::string Filter(const Value& subject, absl::string_view filter,
                     const std::vector<Value>& arguments = {}) {
    return values_.Call(FindFilter(filter), subject, arguments);
  }

  TestValues values_;
};

TEST_F(TextFilters, IndentOfAMessagePutsNothingTrustedIntoIt) {
  EXPECT_EQ(Filter(values_.Own("a\n\nb"), "indent", {values_.Int(2)}), "'a\n\n  b'");
  EXPECT_EQ(Filter(values_.Message("a\nb"), "indent", {values_.Int(1), Value{true}}), "' <a\n b>'");
  EXPECT_EQ(Filter(values_.Own("a"), "indent", {values_.Int(65)}),
            "error: indent takes a width from 0 to 64");
}

TEST_F(TextFilters, TrimTakesCharactersOfTheSetFromBothEndsOnly) {
  EXPECT_EQ(Filter(values_.Own("\u3000 a b\u00a0\n"), "trim"), "'a b'");
  EXPECT_EQ(Filter(values_.Own("\u4e16x\u4e16a\u4e16"), "trim", {values_.Own("x\u4e16")}), "'a'");
  EXPECT_EQ(Filter(values_.Own(" a "), "trim", {values_.Own("")}), "' a '");
  EXPECT_EQ(Filter(values_.Own("aaa"), "trim", {values_.Own("a")}), "''");
  EXPECT_EQ(Filter(values_.Own("a"), "trim", {values_.Int(1)}),
            "error: the characters to strip must be a string");
}

// A character of several bytes is stripped whole or not at all.
TEST_F(TextFilters, TrimCutsNoCharacterApart) {
  EXPECT_EQ(Filter(values_.Own("\u00e9"), "trim", {values_.Own("\xc3")}), "'\u00e9'");
  EXPECT_EQ(Filter(values_.Own("\u00e9"), "trim", {values_.Own("\xa9")}), "'\u00e9'");
}

TEST_F(TextFilters, CaseChangesAsciiAndKeepsEachBytesOrigin) {
  Text mixed("ab", true);
  mixed.Append("cD\u00e9", false);
  const Value text = *values_.workspace().NewText(mixed);
  EXPECT_EQ(Filter(text, "upper"), "'AB<CD\u00e9>'");
  EXPECT_EQ(Filter(text, "lower"), "'ab<cd\u00e9>'");
  EXPECT_EQ(Filter(text, "capitalize"), "'Ab<cd\u00e9>'");
  EXPECT_EQ(Filter(values_.Own("it's a-b (c [d {e <f1G"), "title"), "'It's A-B (C [D {E <F1g'");
}

TEST_F(TextFilters, ReplaceCountsFromTheLeft) {
  EXPECT_EQ(Filter(values_.Own("aaaa"), "replace", {values_.Own("aa"), values_.Own("b")}), "'bb'");
  EXPECT_EQ(
      Filter(values_.Own("aaa"), "replace", {values_.Own("a"), values_.Own("b"), values_.Int(2)}),
      "'bba'");
  EXPECT_EQ(
      Filter(values_.Own("aaa"), "replace", {values_.Own("a"), values_.Own("b"), values_.Int(0)}),
      "'aaa'");
  EXPECT_EQ(
      Filter(values_.Own("aaa"), "replace", {values_.Own("a"), values_.Own("b"), Value{None{}}}),
      "'bbb'");
  EXPECT_EQ(Filter(values_.Own("aaa"), "replace", {values_.Own(""), values_.Own("b")}),
            "error: replace() cannot replace an empty string");
}

TEST_F(TextFilters, WhatReplacesAMessagesBytesIsTheMessages) {
  Text mixed("x", true);
  mixed.Append("yx", false);
  const Value text = *values_.workspace().NewText(mixed);
  EXPECT_EQ(Filter(text, "replace", {values_.Own("x"), values_.Own("OWN")}), "'OWN<yOWN>'");
  EXPECT_EQ(Filter(text, "replace", {values_.Own("xy"), values_.Own("OWN")}), "'<OWNx>'");
  EXPECT_EQ(Filter(values_.Own("x"), "replace", {values_.Own("x"), values_.Message("m")}), "'<m>'");
}

TEST_F(TextFilters, IntReadsWhatPythonsIntReadsAndElseGivesTheFallback) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"42", "42"},
      {" -7\n", "-7"},
      {"+7", "7"},
      {"3.9", "3"},
      {"-3.9", "-3"},
      {"1e3", "1000"},
      {"", "0"},
      {"+-7", "0"},
      {"4 2", "0"},
      {"0x10", "0"},
      {"nan", "0"},
      {"inf", "0"},
      {"9223372036854775807", "9223372036854775807"}};
  for (const auto& [text, expected] : cases)
    EXPECT_EQ(Filter(values_.Own(text), "int"), expected) << text;
  EXPECT_EQ(Filter(values_.Own("x"), "int", {values_.Int(5)}), "5");
  EXPECT_EQ(Filter(Value{-2.5}, "int"), "-2");
  EXPECT_EQ(Filter(Value{1e300}, "int", {values_.Int(5)}), "5");
  EXPECT_EQ(Filter(Value{true}, "int"), "1");
  EXPECT_EQ(Filter(values_.Missing(), "int"),
            "error: int cannot convert an undefined value 'missing'");
}

TEST_F(TextFilters, ANumberReadFromAMessageIsTheMessagesAndSoIsItsFallback) {
  EXPECT_EQ(Filter(values_.Message("4"), "int"), "<4>");
  EXPECT_EQ(Filter(values_.Message("4.5"), "int"), "<4>");
  EXPECT_EQ(Filter(values_.Message("x"), "int", {values_.Int(5)}), "<5>");
}

TEST_F(TextFilters, DefaultStandsInForWhatIsUndefinedAndIfAskedForWhatIsFalse) {
  const Value other = values_.Own("other");
  EXPECT_EQ(Filter(values_.Missing(), "default", {other}), "'other'");
  EXPECT_EQ(Filter(values_.Missing(), "d"), "''");
  EXPECT_EQ(Filter(Value{None{}}, "default", {other}), "none");
  EXPECT_EQ(Filter(values_.Own(""), "default", {other, Value{false}}), "''");
  EXPECT_EQ(Filter(values_.Own(""), "default", {other, Value{true}}), "'other'");
  EXPECT_EQ(Filter(values_.Int(1), "default", {other, Value{true}}), "1");
}

TEST(FindBytes, FindsTheFirstPlaceFromThereOn) {
  TestValues values;
  const auto find = [&](absl::string_view text, absl::string_view needle, size_t from) {
    return *FindBytes(values.workspace(), text, needle, from);
  };
  EXPECT_EQ(find("abcabc", "bc", 0), 1u);
  EXPECT_EQ(find("abcabc", "bc", 1), 1u);
  EXPECT_EQ(find("abcabc", "bc", 2), 4u);
  EXPECT_EQ(find("abcabc", "bc", 5), absl::string_view::npos);
  EXPECT_EQ(find("abc", "abcd", 0), absl::string_view::npos);
  EXPECT_EQ(find("abc", "", 3), 3u);
  EXPECT_EQ(find("abc", "", 4), absl::string_view::npos);
  EXPECT_EQ(find("abc", "a", 9), absl::string_view::npos);
  // A long text is searched in parts, which a match may span.
  const std::string parts(size_t{64} << 10, 'x');
  for (const size_t at : {size_t{0}, parts.size() - 1, parts.size(), 3 * parts.size() - 2}) {
    std::string text = parts + parts + parts;
    text.replace(at, 2, "yz");
    EXPECT_EQ(find(text, "yz", 0), at);
    EXPECT_EQ(find(text, "yz", at), at);
    EXPECT_EQ(find(text, "yz", at + 1), absl::string_view::npos);
    EXPECT_EQ(find(text, text.substr(1), 0), 1u);
  }
}

}  // namespace
}  // namespace baton::jinja
