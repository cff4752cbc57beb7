#include "common/jinja/repr.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

std::string ShownRepr(TestValues& values, const Value& value) {
  const auto text = Repr(values.workspace(), value);
  return text.ok() ? Shown(**text) : absl::StrCat("error: ", text.status().message());
}

TEST(Repr, WritesWhatPythonWrites) {
  TestValues values;
  EXPECT_EQ(ShownRepr(values, values.ListOf({})), "[]");
  EXPECT_EQ(ShownRepr(values, values.DictOf({})), "{}");
  EXPECT_EQ(
      ShownRepr(values, values.ListOf({values.Int(1), Value{2.0}, Value{false}, Value{None{}}})),
      "[1, 2.0, False, None]");
  EXPECT_EQ(ShownRepr(values, values.DictOf({{values.Own("a"), values.ListOf({values.Own("b")})},
                                             {values.Int(3), values.DictOf({})}})),
            "{'a': ['b'], 3: {}}");
}

TEST(Repr, QuotesAndEscapesAsPythonDoes) {
  TestValues values;
  const auto of = [&](absl::string_view text) {
    return ShownRepr(values, values.ListOf({values.Own(text)}));
  };
  EXPECT_EQ(of("it's"), R"(["it's"])");
  EXPECT_EQ(of(R"(it's "so")"), R"(['it\'s "so"'])");
  EXPECT_EQ(of("\\ \n\r\t\x01\x7f"), R"(['\\ \n\r\t\x01\x7f'])");
  EXPECT_EQ(of("\u00a0\u00ad\u00e9\u4e16\u200b\U000e0001\U0001f600"),
            "['\\xa0\\xad\u00e9\u4e16\\u200b\\U000e0001\U0001f600']");
}

TEST(Repr, TextOfAMessageStaysUntrusted) {
  TestValues values;
  EXPECT_EQ(ShownRepr(values, values.ListOf({values.Message("a\nb"), values.Own("c")})),
            "['<a\\nb>', 'c']");
}

TEST(Repr, WhatHasNoTextIsRefused) {
  TestValues values;
  EXPECT_EQ(ShownRepr(values, values.ListOf({values.Generator({})})),
            "error: a generator (use list) cannot be converted to text");
}

}  // namespace
}  // namespace baton::jinja
