#include "common/jinja/expression_parser.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "common/jinja/parser.h"
#include "tests/common/jinja/shown_tree.h"

namespace baton::jinja {
namespace {

TEST(ExpressionParser, BindsTighterFromConditionToSign) {
  EXPECT_EQ(Parsed("a if b or c else d"), "(if a (or b c) d)");
  EXPECT_EQ(Parsed("a or b and c"), "(or a (and b c))");
  EXPECT_EQ(Parsed("a and not b == c"), "(and a (not (== b c)))");
  EXPECT_EQ(Parsed("a in b + c"), "(in a (+ b c))");
  EXPECT_EQ(Parsed("a + b ~ c"), "(+ a (~ b c))");
  EXPECT_EQ(Parsed("a ~ b * c"), "(~ a (* b c))");
  EXPECT_EQ(Parsed("a * -b"), "(* a (- b))");
  EXPECT_EQ(Parsed("(a + b) * c"), "(* (+ a b) c)");
}

TEST(ExpressionParser, GroupsEqualsFromTheLeft) {
  EXPECT_EQ(Parsed("a - b - c + d"), "(+ (- (- a b) c) d)");
  EXPECT_EQ(Parsed("a / b // c % d * e"), "(* (% (// (/ a b) c) d) e)");
  EXPECT_EQ(Parsed("a ~ b ~ c"), "(~ (~ a b) c)");
  EXPECT_EQ(Parsed("a or b or c"), "(or (or a b) c)");
  EXPECT_EQ(Parsed("a and b and c"), "(and (and a b) c)");
}

TEST(ExpressionParser, KnowsEveryComparisonAndRefusesAChainOfThem) {
  for (const absl::string_view op : {"==", "!=", "<", "<=", ">", ">=", "in", "not in"}) {
    EXPECT_EQ(Parsed(absl::StrCat("a ", op, " b")), absl::StrCat("(", op, " a b)"));
    EXPECT_EQ(
        Parsed(absl::StrCat("a ", op, " b < c")),
        "error: chat template line 1: unsupported: a chain of comparisons (write it with 'and')");
  }
  EXPECT_EQ(Parsed("not a in b"), "(not (in a b))");
}

TEST(ExpressionParser, FiltersAndTestsBindToWhatStandsBeforeThem) {
  EXPECT_EQ(Parsed("a + b | upper | trim"), "(+ a (trim (upper b) _))");
  EXPECT_EQ(Parsed("-a | upper"), "(upper (- a))");
  EXPECT_EQ(Parsed("a is not defined and b"), "(and (not (defined a)) b)");
  EXPECT_EQ(Parsed("a is eq b.c[0] + d"), "(+ (eq a ([] (.c b) 0)) d)");
  EXPECT_EQ(Parsed("not a is none"), "(not (none a))");
}

TEST(ExpressionParser, ANameGivenAsAStringMustExistToo) {
  const std::string at = "error: chat template line 1: ";
  EXPECT_EQ(Parsed("a | map('shine')"), at + "unknown filter 'shine'");
  EXPECT_EQ(Parsed("a | select('shiny')"), at + "unknown test 'shiny'");
  EXPECT_EQ(Parsed("a | rejectattr('x', 'shiny')"), at + "unknown test 'shiny'");
  EXPECT_EQ(Parsed("a | map(b)"), "(map a b _)");
}

TEST(ExpressionParser, AConditionalMayLackItsElseAndGroupsFromTheRight) {
  EXPECT_EQ(Parsed("a if b"), "(if a b _)");
  EXPECT_EQ(Parsed("a if b else c if d else e"), "(if a b (if c d e))");
  EXPECT_EQ(Parsed("a if b if c"), "(if (if a b _) c _)");
}

TEST(ExpressionParser, LeavesTheIfToTheStatementWhereAsked) {
  const auto tokens = Tokenize("{% a, b if c %}");
  ASSERT_TRUE(tokens.ok());
  TokenCursor cursor(*tokens);
  ExpressionParser parser(cursor);
  cursor.Next();
  const auto list = parser.ParseExpressionList(false);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Tree(list->get()), "(list a b)");
  EXPECT_TRUE(cursor.AtName("if"));
}

TEST(ExpressionParser, ACommaAtTheEndOfATagMakesAListOfOne) {
  const auto tokens = Tokenize("{% a, %}");
  ASSERT_TRUE(tokens.ok());
  TokenCursor cursor(*tokens);
  ExpressionParser parser(cursor);
  cursor.Next();
  const auto list = parser.ParseExpressionList(true);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(Tree(list->get()), "(list a)");
}

TEST(ExpressionParser, ATreeIsAsDeepAsAllowedAndNoDeeper) {
  const auto sum = [](int parts) {
    std::string text = "a";
    for (int i = 1; i < parts; ++i) text += " + a";
    return Parsed(text);
  };
  EXPECT_EQ(sum(kMaxExpressionDepth).rfind("error", 0), std::string::npos);
  EXPECT_EQ(sum(kMaxExpressionDepth + 1),
            absl::StrCat("error: chat template line 1: an expression of more than ",
                         kMaxExpressionDepth, " parts"));
}

TEST(ExpressionParser, BracketsNestAsDeepAsAllowedAndNoDeeper) {
  for (const absl::string_view opening : {"(", "[", "not ", "-"}) {
    std::string text;
    for (int i = 0; i < 2 * kMaxNesting; ++i) absl::StrAppend(&text, opening);
    EXPECT_EQ(Parsed(text + "a").rfind("error: chat template line 1: ", 0), 0u) << opening;
  }
  EXPECT_EQ(Parsed("((((((a))))))"), "a");
}

TEST(ExpressionParser, RemembersTheFunctionsCalledAndTheNamesQuestioned) {
  const auto tokens = Tokenize(
      "{{ f(1)\n + g() if h is defined and i is not undefined and j is none else k.get(1) }}");
  ASSERT_TRUE(tokens.ok());
  TokenCursor cursor(*tokens);
  ExpressionParser parser(cursor);
  cursor.Next();
  ASSERT_TRUE(parser.ParseExpression().ok());
  ASSERT_EQ(parser.calls().size(), 2u);
  EXPECT_EQ(parser.calls()[0].name, "f");
  EXPECT_EQ(parser.calls()[0].line, 1);
  EXPECT_EQ(parser.calls()[1].name, "g");
  EXPECT_EQ(parser.calls()[1].line, 2);
  EXPECT_EQ(parser.questioned(), (std::set<std::string>{"h", "i"}));
}

}  // namespace
}  // namespace baton::jinja
