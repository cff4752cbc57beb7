#include <string>

#include "gtest/gtest.h"

#include "tests/common/jinja/shown_tree.h"

namespace baton::jinja {
namespace {

const std::string kAt = "error: chat template line 1: ";

TEST(PrimaryParser, ReadsEveryLiteral) {
  EXPECT_EQ(Parsed("1"), "1");
  EXPECT_EQ(Parsed("2.5"), "2.5");
  EXPECT_EQ(Parsed("true"), "true");
  EXPECT_EQ(Parsed("True"), "true");
  EXPECT_EQ(Parsed("false"), "false");
  EXPECT_EQ(Parsed("False"), "false");
  EXPECT_EQ(Parsed("none"), "none");
  EXPECT_EQ(Parsed("None"), "none");
  EXPECT_EQ(Parsed("TRUE"), "TRUE");  // a variable
}

TEST(PrimaryParser, StringsThatStandTogetherAreOne) {
  EXPECT_EQ(Parsed("'a' \"b\"\n'c'"), "'abc'");
}

TEST(PrimaryParser, ListsAndDictsMayEndWithAComma) {
  EXPECT_EQ(Parsed("[]"), "(list)");
  EXPECT_EQ(Parsed("[1, 'a',]"), "(list 1 'a')");
  EXPECT_EQ(Parsed("{}"), "(dict)");
  EXPECT_EQ(Parsed("{'a': 1, b: c,}"), "(dict 'a' 1 b c)");
  EXPECT_EQ(Parsed("[,]"), kAt + "unexpected ','");
  EXPECT_EQ(Parsed("[1 2]"), kAt + "expected ',' before '2'");
  EXPECT_EQ(Parsed("{1}"), kAt + "expected ':' before '}'");
}

TEST(PrimaryParser, AParenthesisIsAListOnlyWithACommaOrWithNothing) {
  EXPECT_EQ(Parsed("(a)"), "a");
  EXPECT_EQ(Parsed("(a,)"), "(list a)");
  EXPECT_EQ(Parsed("(a, b)"), "(list a b)");
  EXPECT_EQ(Parsed("()"), "(list)");
}

TEST(PrimaryParser, WhatFollowsBindsFromTheLeft) {
  EXPECT_EQ(Parsed("a.b['c'].d"), "(.d ([] (.b a) 'c'))");
  EXPECT_EQ(Parsed("a.0.b"), "(.b ([] a 0))");
  EXPECT_EQ(Parsed("a.strip().upper()"), "(upper (strip a _))");
  EXPECT_EQ(Parsed("'a'.upper()"), "(upper 'a')");
}

TEST(PrimaryParser, ASliceHasThreePartsThatMayBeAbsent) {
  EXPECT_EQ(Parsed("a[1:2:3]"), "([:] a 1 2 3)");
  EXPECT_EQ(Parsed("a[:]"), "([:] a _ _ _)");
  EXPECT_EQ(Parsed("a[1:]"), "([:] a 1 _ _)");
  EXPECT_EQ(Parsed("a[:2]"), "([:] a _ 2 _)");
  EXPECT_EQ(Parsed("a[::-1]"), "([:] a _ _ (- 1))");
  EXPECT_EQ(Parsed("a[]"), kAt + "empty subscript '[]'");
  EXPECT_EQ(Parsed("a[1:2:3:4]"), kAt + "expected ']' before '4'");
}

TEST(PrimaryParser, ACallTakesPositionsFirstAndNamesAfter) {
  EXPECT_EQ(Parsed("f(1, b, c=2, d=e,)"), "(f() 1 b c=2 d=e)");
  EXPECT_EQ(Parsed("f()"), "(f())");
  EXPECT_EQ(Parsed("f(a=1, 2)"), kAt + "unexpected '2'");
  EXPECT_EQ(Parsed("f(1 2)"), kAt + "expected ',' before '2'");
  EXPECT_EQ(Parsed("f(a == 1)"), "(f() (== a 1))");
}

TEST(PrimaryParser, OnlyNamesAndKnownMethodsAreCalled) {
  EXPECT_EQ(Parsed("a.launch()"), kAt + "unknown method 'launch'");
  EXPECT_EQ(Parsed("a[0]()"), kAt + "unsupported: a call of something that is not a name");
  EXPECT_EQ(Parsed("f()()"), kAt + "unsupported: a call of something that is not a name");
}

TEST(PrimaryParser, TheLoopHasOnlyTheAttributesThatItHas) {
  EXPECT_EQ(Parsed("loop.index0"), "(.index0 loop)");
  EXPECT_EQ(Parsed("loop.depth"), kAt + "unknown attribute 'loop.depth'");
  EXPECT_EQ(Parsed("a.loop.depth"), "(.depth (.loop a))");
}

}  // namespace
}  // namespace baton::jinja
