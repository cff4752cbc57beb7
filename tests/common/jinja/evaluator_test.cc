#include "common/jinja/evaluator.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/jinja/parser.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {
namespace {

// Evaluates expressions in two scopes, one around the other.
class EvaluatorTest : public testing::Test {
 protected:
  std::string Of(absl::string_view expression) {
    block_ = *Parse(absl::StrCat("{% macro m(a, b=a) %}{% endmacro %}{{ ", expression, " }}"));
    Set(outer_, "m", Value{static_cast<const Statement*>(block_[0].get())});
    return Shown(evaluator_.Evaluate(*block_[1]->expression, inner_));
  }

  static void Set(Scope& scope, absl::string_view name, const Value& value) {
    ASSERT_TRUE(scope.Set(name, value).ok());
  }

  TestValues values_;
  Scope outer_{values_.workspace(), nullptr};
  Scope inner_{values_.workspace(), &outer_};
  Block block_;
  // A macro answers with what it sees.
  Evaluator evaluator_{values_.workspace(), [this](const Statement&, Scope& scope) {
                         return absl::StatusOr<Value>(values_.ListOf(
                             {*scope.LookUp("a"), *scope.LookUp("b"), *scope.LookUp("x")}));
                       }};
};

TEST_F(EvaluatorTest, TheNearestScopeHasTheVariable) {
  Set(outer_, "x", values_.Int(1));
  Set(outer_, "y", values_.Int(2));
  Set(inner_, "x", values_.Int(3));
  EXPECT_EQ(Of("[x, y, z]"), "[3, 2, undefined]");
  EXPECT_EQ(Shown(outer_.LookUp("x")), "1");
}

TEST_F(EvaluatorTest, WhatNeedNotBeEvaluatedIsNot) {
  EXPECT_EQ(Of("false and missing.x"), "false");
  EXPECT_EQ(Of("'a' or missing.x"), "'a'");
  EXPECT_EQ(Of("1 if true else missing.x"), "1");
  EXPECT_EQ(Of("missing.x if false else 2"), "2");
  EXPECT_EQ(Of("missing.x if false"), "undefined");
  EXPECT_EQ(Of("true and missing.x").rfind("error: chat template line 1: 'x' of an undefined", 0),
            0u);
}

TEST_F(EvaluatorTest, AndAndOrGiveOneOfTheirOperands) {
  EXPECT_EQ(Of("'' and 1"), "''");
  EXPECT_EQ(Of("'a' and 1"), "1");
  EXPECT_EQ(Of("0 or ''"), "''");
}

TEST_F(EvaluatorTest, AMacroSeesItsParametersAndTheOutermostVariables) {
  Set(outer_, "x", values_.Int(1));
  Set(inner_, "x", values_.Int(2));
  EXPECT_EQ(Of("m(x)"), "[2, 2, 1]");
  EXPECT_EQ(Of("m(5, 6)"), "[5, 6, 1]");
  EXPECT_EQ(Of("m(b=7)"), "[undefined, 7, 1]");
  EXPECT_EQ(Of("m()"), "[undefined, undefined, 1]");
}

TEST_F(EvaluatorTest, AMacroRefusesArgumentsThatItDoesNotHave) {
  EXPECT_EQ(Of("m(1, 2, 3)"), "error: chat template line 1: macro 'm' takes 2 arguments");
  EXPECT_EQ(Of("m(c=1)"), "error: chat template line 1: macro 'm' has no parameter 'c'");
  EXPECT_EQ(Of("m(1, a=2)"), "error: chat template line 1: macro 'm' has no parameter 'a'");
}

TEST_F(EvaluatorTest, ARangeIsThatOfPython) {
  Set(outer_, "range", Value{NativeFunction::kRange});
  Set(inner_, "n", values_.Int(2, false));
  EXPECT_EQ(Of("range(3)"), "[0, 1, 2]");
  EXPECT_EQ(Of("range(1, 6, 2)"), "[1, 3, 5]");
  EXPECT_EQ(Of("range(3, 0, -1)"), "[3, 2, 1]");
  EXPECT_EQ(Of("range(3, 3)"), "[]");
  EXPECT_EQ(Of("range(n)"), "[<0>, <1>]");
  EXPECT_EQ(Of("range(9223372036854775806, 9223372036854775807, 5)"), "[9223372036854775806]");
  EXPECT_EQ(Of("range(1, 2, 0)"), "error: chat template line 1: range() needs a step other than 0");
  EXPECT_EQ(Of("range('a')"), "error: chat template line 1: range() takes integers");
  EXPECT_EQ(Of("range()"), "error: chat template line 1: range() takes one to three arguments");
}

TEST_F(EvaluatorTest, AnEndlessRangeEndsWithTheMemory) {
  Set(outer_, "range", Value{NativeFunction::kRange});
  EXPECT_EQ(Of("range(9223372036854775807)"),
            absl::StrCat("error: chat template line 1: more than ", kMaxMemoryBytes >> 20,
                         " MiB of memory"));
}

TEST_F(EvaluatorTest, TheTemplatesOwnErrorHasNoLineAndIsMarked) {
  Set(outer_, "raise_exception", Value{NativeFunction::kRaiseException});
  EXPECT_EQ(Of("1 + raise_exception()"),
            "error: chat template line 1: raise_exception() takes one argument");
  EXPECT_FALSE(evaluator_.raised());
  EXPECT_EQ(Of("[raise_exception('no ' ~ 1)]"), "error: no 1");
  EXPECT_TRUE(evaluator_.raised());
}

TEST_F(EvaluatorTest, WhatIsNoFunctionIsNotCalled) {
  Set(outer_, "m2", values_.Int(1));
  EXPECT_EQ(Of("m2() if m2 is defined"),
            "error: chat template line 1: 'm2' is not a function but a integer");
}

TEST_F(EvaluatorTest, AnErrorHasTheLineOfTheInnermostExpression) {
  EXPECT_EQ(Of("[1,\n2,\nmissing.x]"),
            "error: chat template line 3: 'x' of an undefined value 'missing'");
}

TEST_F(EvaluatorTest, TheDepthIsBoundedAndGoesBack) {
  evaluator_.depth() = kMaxEvaluationDepth - 2;
  EXPECT_EQ(Of("[1]"), "[1]");
  EXPECT_EQ(evaluator_.depth(), kMaxEvaluationDepth - 2);
  EXPECT_EQ(Of("[[1]]"), absl::StrCat("error: chat template line 1: nested deeper than ",
                                      kMaxEvaluationDepth, " while running"));
  EXPECT_EQ(evaluator_.depth(), kMaxEvaluationDepth - 2);
}

TEST_F(EvaluatorTest, ALoopKnowsItsPlace) {
  const Value items = values_.ListOf({values_.Own("a"), values_.Own("b"), values_.Own("c")});
  Loop loop{.items = items.list(), .index = 0};
  Set(outer_, "loop", Value{static_cast<const Loop*>(&loop)});
  const std::string place =
      "[loop.index, loop.index0, loop.revindex, loop.revindex0, loop.first, loop.last,"
      " loop.length, loop.previtem, loop.nextitem]";
  EXPECT_EQ(Of(place), "[1, 0, 3, 2, true, false, 3, undefined, 'b']");
  loop.index = 2;
  EXPECT_EQ(Of(place), "[3, 2, 1, 0, false, true, 3, 'b', undefined]");
}

TEST_F(EvaluatorTest, NoPlaceInALoopOverAMessagesTextIsTrusted) {
  const auto characters = Iterate(values_.workspace(), values_.Message("abc"));
  ASSERT_TRUE(characters.ok());
  Loop loop{.items = *characters, .index = 1};
  Set(outer_, "loop", Value{static_cast<const Loop*>(&loop)});
  EXPECT_EQ(Of("[loop.index, loop.index0, loop.revindex, loop.revindex0, loop.first, loop.last,"
               " loop.length]"),
            "[<2>, <1>, <2>, <1>, <false>, <false>, <3>]");
}

TEST(AtLine, PutsTheFirstLineAndNoOther) {
  const absl::Status error = absl::ResourceExhaustedError("too much");
  const absl::Status inner = AtLine(3, error);
  EXPECT_EQ(inner, absl::ResourceExhaustedError("chat template line 3: too much"));
  EXPECT_EQ(AtLine(2, inner), inner);
  EXPECT_TRUE(AtLine(1, absl::OkStatus()).ok());
}

}  // namespace
}  // namespace baton::jinja
