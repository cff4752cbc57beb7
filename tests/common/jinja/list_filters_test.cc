#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/jinja/builtins.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

class ListFilters : public testing::Test {
 protected:
  std::string Filter(const Value& subject, absl::string_view filter,
                     const std::vector<Value>& arguments = {}) {
    return values_.Call(FindFilter(filter), subject, arguments);
  }
  Value Numbers(const std::vector<int64_t>& numbers) {
    std::vector<Value> items;
    for (const int64_t number : numbers) items.push_back(values_.Int(number));
    return values_.ListOf(std::move(items));
  }
  Value Person(absl::string_view name, int64_t age) {
    return values_.DictOf(
        {{values_.Own("name"), values_.Own(name)}, {values_.Own("age"), values_.Int(age)}});
  }
  Value People() { return values_.ListOf({Person("ann", 3), Person("bob", 0)}); }

  TestValues values_;
};

TEST_F(ListFilters, EveryNameInTheTablesIsFoundOnceInItsOwnTable) {
  for (const auto& table : {baton::jinja::TextFilters(), baton::jinja::ListFilters()}) {
    for (const Builtin& builtin : table) {
      ASSERT_NE(FindFilter(builtin.name), nullptr) << builtin.name;
      EXPECT_EQ(FindFilter(builtin.name)->run, builtin.run) << builtin.name;
      EXPECT_LE(builtin.required, builtin.parameters.size()) << builtin.name;
    }
  }
  EXPECT_EQ(FindFilter("defined"), nullptr);
  EXPECT_EQ(FindTest("join"), nullptr);
  EXPECT_EQ(FindMethod("map"), nullptr);
  EXPECT_EQ(FindFilter(""), nullptr);
}

TEST_F(ListFilters, LengthCountsItemsOrCharactersAndAGeneratorHasNone) {
  EXPECT_EQ(Filter(Numbers({4, 5}), "length"), "2");
  EXPECT_EQ(Filter(Person("ann", 3), "count"), "2");
  EXPECT_EQ(Filter(values_.Message("a\u4e16"), "length"), "<2>");
  EXPECT_EQ(Filter(values_.Missing(), "length"), "0");
  EXPECT_EQ(Filter(values_.Generator({}), "length"), "error: a generator (use list) has no length");
  EXPECT_EQ(Filter(values_.Int(5), "length"), "error: a integer has no length");
}

TEST_F(ListFilters, AGeneratorHasAFirstItemAndNoLastOne) {
  EXPECT_EQ(Filter(values_.Generator({values_.Int(4)}), "first"), "4");
  EXPECT_EQ(Filter(values_.Generator({values_.Int(4)}), "last"),
            "error: a generator has no last item; convert it with the filter list first");
}

TEST_F(ListFilters, FirstAndLastOfNothingAreUndefined) {
  EXPECT_EQ(Filter(Numbers({4, 5}), "first"), "4");
  EXPECT_EQ(Filter(Numbers({4, 5}), "last"), "5");
  for (const absl::string_view filter : {"first", "last"}) {
    EXPECT_EQ(Filter(Numbers({}), filter), "undefined");
    EXPECT_EQ(Filter(values_.Own(""), filter), "undefined");
    EXPECT_EQ(Filter(values_.Message("\u4e16"), filter), "'<\u4e16>'");
  }
}

TEST_F(ListFilters, ReverseOfTextIsTextInCharacters) {
  EXPECT_EQ(Filter(values_.Own("a\u4e16c"), "reverse"), "'c\u4e16a'");
  EXPECT_EQ(Filter(Numbers({1, 2}), "reverse"), "(2, 1)");
  EXPECT_EQ(Filter(values_.Generator({values_.Int(1)}), "list"), "[1]");
}

TEST_F(ListFilters, JoinPutsTheSeparatorBetweenItemsOnly) {
  EXPECT_EQ(Filter(Numbers({1, 2, 3}), "join", {values_.Own(", ")}), "'1, 2, 3'");
  EXPECT_EQ(Filter(Numbers({1}), "join", {values_.Own(", ")}), "'1'");
  EXPECT_EQ(Filter(Numbers({}), "join", {values_.Own(", ")}), "''");
  EXPECT_EQ(Filter(values_.ListOf({values_.Own("a"), values_.Message("b")}), "join",
                   {values_.Message("-")}),
            "'a<-b>'");
  EXPECT_EQ(Filter(People(), "join", {values_.Own("/"), values_.Own("name")}), "'ann/bob'");
}

TEST_F(ListFilters, MapTakesAnAttributeOrAFilterWithoutArguments) {
  EXPECT_EQ(Filter(People(), "map", {values_.Missing(), values_.Own("name")}), "('ann', 'bob')");
  EXPECT_EQ(Filter(People(), "map", {values_.Missing(), values_.Own("shoe")}),
            "(undefined, undefined)");
  EXPECT_EQ(Filter(values_.ListOf({values_.Message("a")}), "map", {values_.Own("upper")}),
            "('<A>')");
  EXPECT_EQ(Filter(People(), "map"), "error: map() needs a filter");
  EXPECT_EQ(Filter(People(), "map", {values_.Own("replace")}),
            "error: there is no filter or test for lists with the name replace");
  EXPECT_EQ(Filter(People(), "map", {values_.Int(1)}),
            "error: there is no filter or test for lists with the name integer");
}

TEST_F(ListFilters, SelectAndRejectPartAListBetweenThem) {
  const Value numbers = Numbers({0, 1, 2, 3, 0});
  EXPECT_EQ(Filter(numbers, "select"), "(1, 2, 3)");
  EXPECT_EQ(Filter(numbers, "reject"), "(0, 0)");
  EXPECT_EQ(Filter(numbers, "select", {values_.Own("odd")}), "(1, 3)");
  EXPECT_EQ(Filter(numbers, "reject", {values_.Own("odd")}), "(0, 2, 0)");
  EXPECT_EQ(Filter(numbers, "select", {values_.Own("gt"), values_.Int(1)}), "(2, 3)");
  EXPECT_EQ(Filter(numbers, "select", {values_.Own("gt")}), "error: test 'gt' needs an argument");
}

TEST_F(ListFilters, SelectattrJudgesTheAttributeAndGivesTheItem) {
  const std::string ann = "({'name': 'ann', 'age': 3})";
  const std::string bob = "({'name': 'bob', 'age': 0})";
  EXPECT_EQ(Filter(People(), "selectattr", {values_.Own("age")}), ann);
  EXPECT_EQ(Filter(People(), "rejectattr", {values_.Own("age")}), bob);
  EXPECT_EQ(Filter(People(), "selectattr", {values_.Own("age"), values_.Own("lt"), values_.Int(2)}),
            bob);
  EXPECT_EQ(Filter(People(), "rejectattr", {values_.Own("age"), values_.Own("lt"), values_.Int(2)}),
            ann);
  EXPECT_EQ(Filter(People(), "selectattr", {values_.Own("shoe"), values_.Own("defined")}), "()");
}

TEST_F(ListFilters, ItemsArePairsInTheOrderOfInsertion) {
  EXPECT_EQ(Filter(Person("ann", 3), "items"), "(['name', 'ann'], ['age', 3])");
  EXPECT_EQ(Filter(values_.Missing(), "items"), "()");
  EXPECT_EQ(Filter(Numbers({1}), "items"), "error: a list has no items");
}

TEST_F(ListFilters, AnItemAStepSoThatNoListIsFree) {
  ASSERT_TRUE(values_.workspace().Step(kMaxSteps - 2).ok());
  EXPECT_EQ(Filter(Numbers({1, 2, 3}), "select"),
            absl::StrCat("error: more than ", kMaxSteps, " steps"));
}

}  // namespace
}  // namespace baton::jinja
