#include "common/jinja/operators.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

class Operators : public testing::Test {
 protected:
  std::string Of(const Value& left, Operator op, const Value& right) {
    return Shown(ApplyBinary(values_.workspace(), op, left, right));
  }
  std::string Part(const Value& value, const Value& start, const Value& stop, const Value& step) {
    return Shown(Slice(values_.workspace(), value, &start, &stop, &step));
  }

  TestValues values_;
};

// Python's rule: a == b * (a // b) + a % b, and a % b has the sign of b.
TEST_F(Operators, DivisionRoundsDownWhateverTheSigns) {
  for (int64_t a = -7; a <= 7; ++a) {
    for (const int64_t b : {-3, -2, -1, 1, 2, 3}) {
      const auto quotient =
          ApplyBinary(values_.workspace(), Operator::kFloorDivide, values_.Int(a), values_.Int(b));
      const auto rest =
          ApplyBinary(values_.workspace(), Operator::kModulo, values_.Int(a), values_.Int(b));
      ASSERT_TRUE(quotient.ok() && rest.ok());
      EXPECT_EQ(b * quotient->Integer() + rest->Integer(), a) << a << " by " << b;
      EXPECT_TRUE(rest->Integer() == 0 || (rest->Integer() < 0) == (b < 0)) << a << " by " << b;
      EXPECT_LT(std::abs(rest->Integer()), std::abs(b)) << a << " by " << b;
    }
  }
  EXPECT_EQ(Of(Value{-7.5}, Operator::kFloorDivide, values_.Int(2)), "-4.0");
  EXPECT_EQ(Of(Value{-7.5}, Operator::kModulo, values_.Int(2)), "0.5");
  EXPECT_EQ(Of(Value{7.5}, Operator::kModulo, values_.Int(-2)), "-0.5");
  EXPECT_EQ(Of(Value{1.0}, Operator::kModulo, values_.Int(-1)), "-0.0");
  EXPECT_EQ(Of(Value{1.0}, Operator::kFloorDivide, Value{0.1}), "9.0") << "1.0 / 0.1 is 10.0";
}

TEST_F(Operators, AnIntegerThatOutgrows64BitsIsAnError) {
  const std::string error = "error: an integer does not fit into 64 bits";
  EXPECT_EQ(Of(values_.Int(kMost), Operator::kAdd, values_.Int(1)), error);
  EXPECT_EQ(Of(values_.Int(kLeast), Operator::kSubtract, values_.Int(1)), error);
  EXPECT_EQ(Of(values_.Int(kMost), Operator::kMultiply, values_.Int(2)), error);
  EXPECT_EQ(Of(values_.Int(kLeast), Operator::kFloorDivide, values_.Int(-1)), error);
  EXPECT_EQ(Shown(ApplyUnary(Operator::kNegate, values_.Int(kLeast))), error);
  EXPECT_EQ(Of(values_.Int(kLeast), Operator::kModulo, values_.Int(-1)), "0");
}

TEST_F(Operators, NothingIsDividedByZero) {
  for (const Operator op : {Operator::kDivide, Operator::kFloorDivide, Operator::kModulo}) {
    for (const Value& zero : {values_.Int(0), Value{0.0}, Value{false}}) {
      EXPECT_EQ(Of(values_.Int(1), op, zero), "error: division by zero");
    }
  }
}

TEST_F(Operators, ADivisionIsAFloatAndABooleanANumber) {
  EXPECT_EQ(Of(values_.Int(6), Operator::kDivide, values_.Int(2)), "3.0");
  EXPECT_EQ(Of(Value{true}, Operator::kAdd, Value{true}), "2");
  EXPECT_EQ(Shown(ApplyUnary(Operator::kNegate, Value{true})), "-1");
  EXPECT_EQ(Shown(ApplyUnary(Operator::kPlus, Value{true})), "1");
}

TEST_F(Operators, WhatIsComputedFromAMessageIsTheMessages) {
  EXPECT_EQ(Of(values_.Int(1), Operator::kAdd, values_.Int(2, false)), "<3>");
  EXPECT_EQ(Of(Value{1.5, false}, Operator::kMultiply, values_.Int(2)), "<3.0>");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kEqual, values_.Message("a")), "<true>");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kIn, values_.Message("b")), "<false>");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kConcatenate, values_.Message("b")), "'a<b>'");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kConcatenate, values_.Int(1, false)), "'a<1>'");
  EXPECT_EQ(Of(values_.Own("ab"), Operator::kMultiply, values_.Int(2, false)), "'<abab>'");
  EXPECT_EQ(Shown(ApplyUnary(Operator::kNot, values_.Message("a"))), "<false>");
}

TEST_F(Operators, ComparesNumbersWithNumbersAndStringsWithStrings) {
  const std::vector<Operator> orders = {Operator::kLess, Operator::kLessEqual,
                                        Operator::kGreaterEqual, Operator::kGreater};
  const std::vector<std::string> less = {"true", "true", "false", "false"};
  const std::vector<std::string> equal = {"false", "true", "true", "false"};
  for (size_t i = 0; i < orders.size(); ++i) {
    EXPECT_EQ(Of(values_.Int(1), orders[i], Value{1.5}), less[i]);
    EXPECT_EQ(Of(values_.Own("Z"), orders[i], values_.Own("a")), less[i]);
    EXPECT_EQ(Of(values_.Own("a"), orders[i], values_.Own("ab")), less[i]);
    EXPECT_EQ(Of(Value{true}, orders[i], values_.Int(1)), equal[i]);
    EXPECT_EQ(Of(values_.Int(1), orders[i], values_.Own("1")),
              "error: cannot order a integer and a string");
  }
  EXPECT_EQ(Of(values_.Int(kMost), Operator::kGreater, values_.Int(kMost - 1)), "true");
}

TEST_F(Operators, NamesTheOperandsThatDoNotFit) {
  EXPECT_EQ(Of(values_.Own("a"), Operator::kAdd, values_.Int(1)),
            "error: cannot compute string + integer");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kModulo, values_.Own("b")),
            "error: cannot compute string % string");
  EXPECT_EQ(Of(values_.Own("a"), Operator::kMultiply, Value{2.0}),
            "error: cannot compute string * float");
  EXPECT_EQ(Of(values_.Missing(), Operator::kAdd, values_.Int(1)),
            "error: cannot compute undefined value 'missing' + integer");
  EXPECT_EQ(Shown(ApplyUnary(Operator::kNegate, values_.Own("a"))),
            "error: a unary '+' or '-' cannot be applied to a string");
}

TEST_F(Operators, ARepetitionIsBoundedByTheBudgets) {
  EXPECT_EQ(Of(values_.Own("a"), Operator::kMultiply, values_.Int(-1)), "''");
  const auto text =
      ApplyBinary(values_.workspace(), Operator::kMultiply, values_.Own("a"), values_.Int(kMost));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Operators, AListTooLargeIsRefusedBeforeItIsMade) {
  std::vector<Value> items(1000, values_.Int(1));
  const auto list = ApplyBinary(values_.workspace(), Operator::kMultiply, values_.ListOf(items),
                                values_.Int(4'000'000));
  EXPECT_EQ(list.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(Operators, AGeneratorIsNoListToAddToOrToRepeat) {
  EXPECT_EQ(Of(values_.Generator({}), Operator::kAdd, values_.ListOf({})),
            "error: a generator cannot be concatenated; convert it with the filter list first");
  EXPECT_EQ(Of(values_.Generator({}), Operator::kMultiply, values_.Int(0)),
            "error: cannot compute generator (use list) * integer");
}

TEST_F(Operators, ASubscriptCountsFromBothEndsInCharacters) {
  const Value text = values_.Own("a\u4e16c");
  const auto at = [&](const Value& value, const Value& index) {
    return Shown(Subscript(values_.workspace(), value, index));
  };
  EXPECT_EQ(at(text, values_.Int(1)), "'\u4e16'");
  EXPECT_EQ(at(text, values_.Int(-3)), "'a'");
  EXPECT_EQ(at(text, values_.Int(3)), "undefined");
  EXPECT_EQ(at(text, values_.Int(-4)), "undefined");
  EXPECT_EQ(at(text, values_.Int(0, false)), "'<a>'");
  const Value list = values_.ListOf({values_.Int(5), values_.Int(6)});
  EXPECT_EQ(at(list, values_.Int(-1)), "6");
  EXPECT_EQ(at(list, values_.Int(-3)), "undefined");
  EXPECT_EQ(at(list, Value{true}), "6");
  EXPECT_EQ(at(list, Value{0.0}), "undefined");
  EXPECT_EQ(at(values_.Generator({values_.Int(5)}), values_.Int(0)), "undefined");
  EXPECT_EQ(at(values_.DictOf({{values_.Int(1), values_.Own("one")}}), Value{true}), "'one'");
  EXPECT_EQ(at(values_.Missing(), values_.Int(0)),
            "error: [] cannot be applied to undefined value 'missing'");
}

// What Python's list(range(5))[start:stop:step] holds.
TEST_F(Operators, ASliceCutsItsBoundsAsPythonDoes) {
  const Value digits = values_.Own("01234");
  const Value list = values_.ListOf(
      {values_.Int(0), values_.Int(1), values_.Int(2), values_.Int(3), values_.Int(4)});
  struct Case {
    int64_t start, stop, step;
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{{0, 5, 1, "01234"},
                                         {-2, 9, 1, "34"},
                                         {-9, 2, 1, "01"},
                                         {3, 1, 1, ""},
                                         {1, 5, 2, "13"},
                                         {4, 0, -1, "4321"},
                                         {9, -9, -2, "420"},
                                         {-1, -3, -1, "43"},
                                         {0, 5, kMost, "0"},
                                         {4, -9, kLeast, "4"},
                                         {kLeast, kMost, 1, "01234"}}) {
    const Value start = values_.Int(c.start);
    const Value stop = values_.Int(c.stop);
    const Value step = values_.Int(c.step);
    EXPECT_EQ(Part(digits, start, stop, step), absl::StrCat("'", c.expected, "'"));
    const auto items = Slice(values_.workspace(), list, &start, &stop, &step);
    ASSERT_TRUE(items.ok());
    std::string joined;
    for (const Value& item : items->list()->items) absl::StrAppend(&joined, item.Integer());
    EXPECT_EQ(joined, c.expected);
  }
}

TEST_F(Operators, ASliceNeedsIntegersAndAStepOtherThanZero) {
  const Value none{None{}};
  EXPECT_EQ(Part(values_.Own("abc"), none, none, none), "'abc'");
  EXPECT_EQ(Part(values_.Own("abc"), none, none, values_.Int(0)),
            "error: a slice step must be an integer other than 0");
  EXPECT_EQ(Part(values_.Own("abc"), values_.Own("1"), none, none),
            "error: a slice bound must be an integer, not a string");
  EXPECT_EQ(Part(values_.Generator({}), none, none, none),
            "error: a slice cannot be taken of a generator (use list)");
}

TEST_F(Operators, ASliceWhoseBoundsAMessageChoseIsTheMessages) {
  const Value none{None{}};
  EXPECT_EQ(Part(values_.Own("abc"), values_.Int(1, false), none, none), "'<bc>'");
  EXPECT_EQ(Part(values_.Own("abc"), none, values_.Int(1, false), none), "'<a>'");
  EXPECT_EQ(Part(values_.Own("abc"), none, none, values_.Int(1, false)), "'<abc>'");
}

}  // namespace
}  // namespace baton::jinja
