#include <string>

#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class Json : public testing::Test {
 protected:
  std::string Of(const Value& value) { return Shown(ToJson(values_.workspace(), value, nullptr)); }
  std::string Of(const Value& value, const Value& indent) {
    return Shown(ToJson(values_.workspace(), value, &indent));
  }

  TestValues values_;
};

TEST_F(Json, StandsOnOneLineWithSpacesAsPythonsDoes) {
  EXPECT_EQ(Of(values_.ListOf({values_.Int(1), Value{2.5}, Value{true}, Value{None{}}})),
            "'[1, 2.5, true, null]'");
  EXPECT_EQ(Of(values_.DictOf(
                {{values_.Own("a"), values_.ListOf({})}, {values_.Int(1), values_.DictOf({})}})),
            R"('{"a": [], "1": {}}')");
}

TEST_F(Json, AnIndentPutsEachItemOnALineOfItsOwn) {
  const Value value =
      values_.DictOf({{values_.Own("a"), values_.ListOf({values_.Int(1), values_.Int(2)})},
                      {values_.Own("b"), values_.ListOf({})}});
  EXPECT_EQ(Of(value, values_.Int(2)), "'{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}'");
  EXPECT_EQ(Of(values_.ListOf({values_.Int(1)}), values_.Int(0)), "'[\n1\n]'");
  EXPECT_EQ(Of(values_.ListOf({values_.Int(1)}), Value{None{}}), "'[1]'");
}

TEST_F(Json, RefusesAnIndentThatIsNoneOfItsOwn) {
  for (const Value& indent : {values_.Int(-1), values_.Int(17), Value{1.5}, values_.Own("  ")}) {
    EXPECT_EQ(Of(values_.ListOf({}), indent), "error: tojson takes an indent from 0 to 16")
        << Shown(indent);
  }
  EXPECT_EQ(Of(values_.ListOf({}), values_.Int(16)), "'[]'");
}

TEST_F(Json, EscapesWhatJsonMustAndNothingElse) {
  EXPECT_EQ(Of(values_.Own("\"\\/\n\r\t\b\f\x01\x1f\x7f <\u4e16>")),
            "'\"\\\"\\\\/\\n\\r\\t\\b\\f\\u0001\\u001f\x7f <\u4e16>\"'");
}

TEST_F(Json, WhatAMessageSaidStaysItsOwnAndTheQuotesAreTheTemplates) {
  EXPECT_EQ(Of(values_.Message("a\"b")), "'\"<a\\\"b>\"'");
  EXPECT_EQ(Of(values_.ListOf({values_.Int(3, false), Value{true, false}})), "'[<3>, <true>]'");
  EXPECT_EQ(Of(values_.DictOf({{values_.Message("k"), values_.Int(1)}})), "'{\"<k>\": 1}'");
}

TEST_F(Json, NamesWhatHasNoJson) {
  EXPECT_EQ(Of(values_.Missing()), "error: tojson cannot write a undefined value 'missing'");
  EXPECT_EQ(Of(values_.ListOf({values_.Generator({})})),
            "error: tojson cannot write a generator (use list)");
  EXPECT_EQ(Of(Value{NativeFunction::kRange}), "error: tojson cannot write a function");
}

}  // namespace
}  // namespace baton::jinja
