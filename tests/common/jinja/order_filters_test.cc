#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class OrderFilters : public ::testing::Test {
 protected:
  std::string Run(const std::string& filter, const Value& subject,
                  const std::vector<Value>& arguments = {}) {
    return values_.Call(FindFilter(filter), subject, arguments);
  }
  Value Texts(const std::vector<std::string>& texts) {
    std::vector<Value> items;
    for (const std::string& text : texts) items.push_back(values_.Own(text));
    return values_.ListOf(items);
  }

  TestValues values_;
};

TEST_F(OrderFilters, SortIgnoresCaseAndKeepsTheOrderOfEqualItems) {
  EXPECT_EQ(Run("sort", Texts({"b", "A", "a", "C"})), "['A', 'a', 'b', 'C']");
  EXPECT_EQ(Run("sort", Texts({"b", "A", "a"}), {Value{true}}), "['b', 'A', 'a']");
  EXPECT_EQ(Run("sort", Texts({"b", "A", "a"}), {Value{false}, Value{true}}), "['A', 'a', 'b']");
  EXPECT_EQ(Run("sort", values_.ListOf({Value{2.5}, values_.Int(-1), values_.Int(2)})),
            "[-1, 2, 2.5]");
}

TEST_F(OrderFilters, SortTakesAnAttribute) {
  const auto named = [&](const char* name) {
    return values_.DictOf({{values_.Own("n"), values_.Own(name)}});
  };
  EXPECT_EQ(Run("sort", values_.ListOf({named("b"), named("a")}),
                {TestValues::Missing(), TestValues::Missing(), values_.Own("n")}),
            "[{'n': 'a'}, {'n': 'b'}]");
}

TEST_F(OrderFilters, StringsAndNumbersHaveNoOrder) {
  EXPECT_THAT(Run("sort", values_.ListOf({values_.Own("a"), values_.Int(1)})),
              ::testing::HasSubstr("error: cannot order"));
  EXPECT_THAT(Run("min", values_.ListOf({values_.Int(1), Value{None{}}})),
              ::testing::HasSubstr("error: cannot order"));
}

TEST_F(OrderFilters, DictSortMakesPairsInTheOrderOfTheKeys) {
  const Value dict = values_.DictOf({{values_.Own("b"), values_.Int(1)},
                                     {values_.Own("C"), values_.Int(2)},
                                     {values_.Own("a"), values_.Message("m")}});
  EXPECT_EQ(Run("dictsort", dict), "[['a', '<m>'], ['b', 1], ['C', 2]]");
  EXPECT_EQ(Run("dictsort", dict, {Value{true}}), "[['C', 2], ['a', '<m>'], ['b', 1]]");
  EXPECT_THAT(Run("dictsort", Texts({"a"})), ::testing::HasSubstr("error: a list has no items"));
}

TEST_F(OrderFilters, MinAndMaxAreTheFirstOfTheirKind) {
  EXPECT_EQ(Run("min", values_.ListOf({values_.Int(3), values_.Int(1), values_.Int(2)})), "1");
  EXPECT_EQ(Run("max", values_.ListOf({values_.Int(3), values_.Int(1)})), "3");
  EXPECT_EQ(Run("max", Texts({"b", "B", "a"})), "'b'");
  EXPECT_EQ(Run("min", values_.ListOf({})), "undefined");
  EXPECT_EQ(Run("min", values_.ListOf({values_.Int(3), values_.Int(1, false)})), "<1>");
}

TEST_F(OrderFilters, UniqueKeepsTheFirstOfEach) {
  EXPECT_EQ(Run("unique", Texts({"b", "a", "B", "a"})), "('b', 'a')");
  EXPECT_EQ(Run("unique", Texts({"b", "B"}), {Value{true}}), "('b', 'B')");
}

}  // namespace
}  // namespace baton::jinja
