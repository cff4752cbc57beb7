#include "common/jinja/expression_nodes.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "common/jinja/parser.h"
#include "tests/common/jinja/shown_tree.h"

namespace baton::jinja {
namespace {

ExpressionPtr Variable(const std::string& name) {
  ExpressionPtr node = MakeNode(ExpressionKind::kVariable, 3);
  node->name = name;
  return node;
}

TEST(ExpressionNodes, OperandsStandInTheirOrderUnderTheirLine) {
  const auto sum =
      MakeBinary(ExpressionKind::kBinary, Operator::kSubtract, 7, Variable("a"), Variable("b"));
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(Tree(sum->get()), "(- a b)");
  EXPECT_EQ((*sum)->line, 7);
  const auto negation = MakeUnary(Operator::kNot, 8, Variable("a"));
  ASSERT_TRUE(negation.ok()) << negation.status();
  EXPECT_EQ(Tree(negation->get()), "(not a)");
}

TEST(ExpressionNodes, ADepthIsOneMoreThanThatOfTheDeepestOperandOrArgument) {
  ExpressionPtr deep = *MakeUnary(Operator::kNot, 1, *MakeUnary(Operator::kNot, 1, Variable("a")));
  EXPECT_EQ(deep->depth, 3);
  ExpressionPtr call = MakeNode(ExpressionKind::kCall, 1);
  call->operands.push_back(Variable("b"));
  call->named.emplace_back("c", std::move(deep));
  EXPECT_EQ((*FinishNode(std::move(call)))->depth, 4);
}

TEST(ExpressionNodes, ATreeIsAsDeepAsAllowedAndNoDeeper) {
  ExpressionPtr node = Variable("a");
  while (node->depth < kMaxExpressionDepth) node = *MakeUnary(Operator::kNot, 1, std::move(node));
  EXPECT_EQ(
      MakeUnary(Operator::kNot, 5, std::move(node)).status(),
      absl::InvalidArgumentError("chat template line 5: an expression of more than 200 parts"));
}

TEST(ExpressionNodes, ArgumentsStandInTheOrderOfTheParameters) {
  EXPECT_EQ(Parsed("a | replace('x', new='y')"), "(replace a 'x' 'y' _)");
  EXPECT_EQ(Parsed("a | replace(count=1, new='y', old='x')"), "(replace a 'x' 'y' 1)");
  EXPECT_EQ(Parsed("a | default(boolean=true)"), "(default a _ true)");
  EXPECT_EQ(Parsed("a.get('k', 2)"), "(get a 'k' 2)");
}

TEST(ExpressionNodes, RefusesArgumentsThatABuiltinDoesNotTake) {
  const std::string at = "error: chat template line 1: ";
  EXPECT_EQ(Parsed("a | upper(1)"), at + "'upper' takes at most 0 arguments");
  EXPECT_EQ(Parsed("a | replace('x')"), at + "'replace' needs an argument 'new'");
  EXPECT_EQ(Parsed("a | replace('x', 'y', old='z')"), at + "'replace' has no parameter 'old'");
  EXPECT_EQ(Parsed("a | trim(set='x')"), at + "'trim' has no parameter 'set'");
}

}  // namespace
}  // namespace baton::jinja
