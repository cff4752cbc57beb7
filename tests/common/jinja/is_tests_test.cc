#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class IsTests : public testing::Test {
 protected:
  std::string Is(const Value& subject, absl::string_view test,
                 const std::vector<Value>& arguments = {}) {
    return values_.Call(FindTest(test), subject, arguments);
  }

  TestValues values_;
};

// Each kind of value and the tests without arguments that hold of it, as jinja2 has them.
TEST_F(IsTests, TellEachKindOfValueFromTheOthers) {
  const std::vector<std::string> kinds = {"undefined", "none",  "string",  "mapping",  "number",
                                          "integer",   "float", "boolean", "iterable", "sequence",
                                          "callable",  "true",  "false"};
  const std::vector<std::pair<Value, std::string>> cases = {
      {values_.Missing(), "undefined iterable sequence callable "},
      {Value{None{}}, "none "},
      {values_.Own(""), "string iterable sequence "},
      {values_.DictOf({}), "mapping iterable sequence "},
      {values_.ListOf({}), "iterable sequence "},
      {values_.Generator({}), "iterable "},
      {values_.Int(1), "number integer "},
      {Value{1.0}, "number float "},
      {Value{true}, "number boolean true "},
      {Value{false}, "number boolean false "},
      {Value{NativeFunction::kRange}, "callable "},
  };
  for (const auto& [value, expected] : cases) {
    std::string held;
    for (const std::string& kind : kinds) {
      if (Is(value, kind) == "true") held += kind + " ";
    }
    EXPECT_EQ(held, expected) << Shown(value);
    EXPECT_NE(Is(value, "defined"), Is(value, "undefined")) << Shown(value);
  }
}

TEST_F(IsTests, OddAndEvenAreOpposites) {
  for (const int64_t number : {-3, -2, 0, 1, 4}) {
    EXPECT_EQ(Is(values_.Int(number), "odd"), number % 2 != 0 ? "true" : "false") << number;
    EXPECT_EQ(Is(values_.Int(number), "even"), number % 2 == 0 ? "true" : "false") << number;
  }
  EXPECT_EQ(Is(values_.Own("1"), "odd"), "error: a string cannot be divided by 2");
}

TEST_F(IsTests, DivisibilityKnowsTheEdgesOfTheIntegers) {
  EXPECT_EQ(Is(values_.Int(9), "divisibleby", {values_.Int(-3)}), "true");
  EXPECT_EQ(Is(values_.Int(9), "divisibleby", {values_.Int(4)}), "false");
  EXPECT_EQ(Is(values_.Int(std::numeric_limits<int64_t>::min()), "divisibleby", {values_.Int(-1)}),
            "true");
  EXPECT_EQ(Is(values_.Int(9), "divisibleby", {values_.Int(0)}),
            "error: a integer cannot be divided by 0");
  EXPECT_EQ(Is(values_.Int(9), "divisibleby", {Value{3.0}}),
            "error: 'divisibleby' takes an integer");
}

TEST_F(IsTests, ComparisonsAreThoseOfTheOperators) {
  const std::map<std::string, std::vector<std::string>> expected = {
      // 1 with 2, 2 with 2, 3 with 2
      {"eq", {"false", "true", "false"}}, {"equalto", {"false", "true", "false"}},
      {"ne", {"true", "false", "true"}},  {"lt", {"true", "false", "false"}},
      {"le", {"true", "true", "false"}},  {"gt", {"false", "false", "true"}},
      {"ge", {"false", "true", "true"}}};
  for (const auto& [test, verdicts] : expected) {
    for (int64_t number = 1; number <= 3; ++number) {
      EXPECT_EQ(Is(values_.Int(number), test, {values_.Int(2)}),
                verdicts[static_cast<size_t>(number - 1)])
          << number << " " << test;
    }
  }
  EXPECT_EQ(Is(values_.Own("a"), "lt", {values_.Int(1)}),
            "error: cannot order a string and a integer");
  EXPECT_EQ(Is(Value{std::nan("")}, "lt", {Value{1.0}}), "error: cannot order a float and a float");
}

TEST_F(IsTests, InLooksForPartsOfTextItemsAndKeys) {
  EXPECT_EQ(Is(values_.Own("b"), "in", {values_.Own("abc")}), "true");
  EXPECT_EQ(Is(values_.Own(""), "in", {values_.Own("")}), "true");
  EXPECT_EQ(Is(values_.Own("d"), "in", {values_.Own("abc")}), "false");
  EXPECT_EQ(Is(values_.Int(2), "in", {values_.ListOf({values_.Int(1), Value{2.0}})}), "true");
  EXPECT_EQ(Is(values_.Own("k"), "in", {values_.DictOf({{values_.Own("k"), values_.Own("v")}})}),
            "true");
  EXPECT_EQ(Is(values_.Own("v"), "in", {values_.DictOf({{values_.Own("k"), values_.Own("v")}})}),
            "false");
  EXPECT_EQ(Is(values_.Int(1), "in", {values_.Own("1")}),
            "error: 'in' can search a string only for another string, not for a integer");
}

TEST_F(IsTests, AVerdictAboutAMessagesBytesIsTheMessages) {
  EXPECT_EQ(Is(values_.Int(2, false), "even"), "<true>");
  EXPECT_EQ(Is(values_.Int(6), "divisibleby", {values_.Int(3, false)}), "<true>");
  EXPECT_EQ(Is(Value{true, false}, "true"), "<true>");
  EXPECT_EQ(Is(Value{true, false}, "false"), "<false>");
  EXPECT_EQ(Is(values_.Own("a"), "eq", {values_.Message("a")}), "<true>");
  EXPECT_EQ(Is(values_.Message("a"), "lt", {values_.Own("b")}), "<true>");
  EXPECT_EQ(Is(values_.Own("a"), "in", {values_.Message("b")}), "<false>");
  // That it is a string was no choice of the message's.
  EXPECT_EQ(Is(values_.Message("a"), "string"), "true");
}

}  // namespace
}  // namespace baton::jinja
