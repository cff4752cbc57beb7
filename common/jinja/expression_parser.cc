#include "common/jinja/expression_parser.h"

#include <array>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

// Checks that the builtin exists which the argument of a filter such as map names.
absl::Status CheckNamedBuiltin(const Expression& call) {
  const absl::string_view name = call.builtin->name;
  const bool attribute = name == "selectattr" || name == "rejectattr";
  if (!attribute && name != "select" && name != "reject" && name != "map") return absl::OkStatus();
  const Expression* argument = call.operands[attribute ? 2 : 1].get();
  if (argument == nullptr || argument->literal_text == nullptr) return absl::OkStatus();
  const absl::string_view wanted = argument->literal_text->bytes();
  if ((name == "map" ? FindFilter(wanted) : FindTest(wanted)) != nullptr) return absl::OkStatus();
  return TemplateError(
      call.line, absl::StrCat("unknown ", name == "map" ? "filter" : "test", " '", wanted, "'"));
}

}  // namespace

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseExpression(bool conditional) {
  const TokenCursor::Nesting nesting(cursor_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, ParseOr());
  while (conditional && cursor_.AtName("if")) {
    ExpressionPtr choice = MakeNode(ExpressionKind::kConditional, cursor_.Next().line);
    choice->operands.push_back(std::move(node));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    choice->operands.push_back(std::move(condition));
    choice->operands.push_back(nullptr);
    if (cursor_.TakeName("else")) {
      BATON_ASSIGN_OR_RETURN(choice->operands.back(), ParseExpression());
    }
    BATON_ASSIGN_OR_RETURN(node, FinishNode(std::move(choice)));
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseExpressionList(bool conditional) {
  const int line = cursor_.Peek().line;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(conditional));
  if (!cursor_.AtOperator(",")) return first;
  ExpressionPtr list = MakeNode(ExpressionKind::kList, line);
  list->operands.push_back(std::move(first));
  while (cursor_.TakeOperator(",")) {
    if (cursor_.Peek().kind == TokenKind::kTagEnd || cursor_.AtOperator(")")) break;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(conditional));
    list->operands.push_back(std::move(item));
  }
  return FinishNode(std::move(list));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseOr() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (cursor_.AtName("or")) {
    const int line = cursor_.Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    BATON_ASSIGN_OR_RETURN(left, MakeBinary(ExpressionKind::kOr, Operator::kNot, line,
                                            std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseAnd() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (cursor_.AtName("and")) {
    const int line = cursor_.Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    BATON_ASSIGN_OR_RETURN(left, MakeBinary(ExpressionKind::kAnd, Operator::kNot, line,
                                            std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!cursor_.AtName("not")) return ParseComparison();
  const TokenCursor::Nesting nesting(cursor_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  const int line = cursor_.Next().line;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return MakeUnary(Operator::kNot, line, std::move(operand));
}

bool ExpressionParser::TakeComparison(Operator& op) {
  constexpr std::array<std::pair<absl::string_view, Operator>, 6> kComparisons = {{
      {"==", Operator::kEqual},
      {"!=", Operator::kNotEqual},
      {"<", Operator::kLess},
      {"<=", Operator::kLessEqual},
      {">", Operator::kGreater},
      {">=", Operator::kGreaterEqual},
  }};
  for (const auto& [symbol, candidate] : kComparisons) {
    if (!cursor_.TakeOperator(symbol)) continue;
    op = candidate;
    return true;
  }
  if (cursor_.TakeName("in")) {
    op = Operator::kIn;
    return true;
  }
  const Token& second = cursor_.PeekSecond();
  if (!cursor_.AtName("not") || second.kind != TokenKind::kName || second.text != "in") {
    return false;
  }
  cursor_.Next();
  cursor_.Next();
  op = Operator::kNotIn;
  return true;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseComparison() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseSum());
  const int line = cursor_.Peek().line;
  Operator op;
  if (!TakeComparison(op)) return left;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseSum());
  Operator chained;
  if (TakeComparison(chained)) {
    return TemplateError(line, "unsupported: a chain of comparisons (write it with 'and')");
  }
  return MakeBinary(ExpressionKind::kBinary, op, line, std::move(left), std::move(right));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSum() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenation());
  while (cursor_.AtOperator("+") || cursor_.AtOperator("-")) {
    const Token& token = cursor_.Next();
    const Operator op = token.text == "+" ? Operator::kAdd : Operator::kSubtract;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    BATON_ASSIGN_OR_RETURN(left, MakeBinary(ExpressionKind::kBinary, op, token.line,
                                            std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseProduct());
  while (cursor_.AtOperator("~")) {
    const int line = cursor_.Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseProduct());
    BATON_ASSIGN_OR_RETURN(left, MakeBinary(ExpressionKind::kBinary, Operator::kConcatenate, line,
                                            std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseProduct() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(true));
  while (true) {
    const int line = cursor_.Peek().line;
    Operator op;
    if (cursor_.TakeOperator("*")) {
      op = Operator::kMultiply;
    } else if (cursor_.TakeOperator("/")) {
      op = Operator::kDivide;
    } else if (cursor_.TakeOperator("//")) {
      op = Operator::kFloorDivide;
    } else if (cursor_.TakeOperator("%")) {
      op = Operator::kModulo;
    } else if (cursor_.AtOperator("**")) {
      return TemplateError(line, "unsupported operator '**'");
    } else {
      return left;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    BATON_ASSIGN_OR_RETURN(
        left, MakeBinary(ExpressionKind::kBinary, op, line, std::move(left), std::move(right)));
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  const TokenCursor::Nesting nesting(cursor_);
  BATON_RETURN_IF_ERROR(nesting.Check());
  ExpressionPtr node;
  if (cursor_.AtOperator("-") || cursor_.AtOperator("+")) {
    const Token& token = cursor_.Next();
    const Operator sign = token.text == "-" ? Operator::kNegate : Operator::kPlus;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(false));
    BATON_ASSIGN_OR_RETURN(node, MakeUnary(sign, token.line, std::move(operand)));
  } else {
    BATON_ASSIGN_OR_RETURN(node, primary_.ParsePrimary());
  }
  BATON_ASSIGN_OR_RETURN(node, primary_.ParsePostfix(std::move(node)));
  while (with_filters && (cursor_.AtOperator("|") || cursor_.AtName("is"))) {
    if (cursor_.AtName("is")) {
      BATON_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else {
      BATON_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    }
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr subject) {
  const int line = cursor_.Next().line;
  if (cursor_.Peek().kind != TokenKind::kName) return cursor_.Unexpected();
  const std::string& name = cursor_.Next().text;
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr) return TemplateError(line, absl::StrCat("unknown filter '", name, "'"));
  CallArguments arguments;
  if (cursor_.AtOperator("(")) {
    BATON_ASSIGN_OR_RETURN(arguments, primary_.ParseArguments());
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node,
                         MakeBuiltinCall(*filter, line, std::move(subject), std::move(arguments)));
  BATON_RETURN_IF_ERROR(CheckNamedBuiltin(*node));
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr subject) {
  const int line = cursor_.Next().line;
  const bool negated = cursor_.TakeName("not");
  if (cursor_.Peek().kind != TokenKind::kName) return cursor_.Unexpected();
  const std::string& name = cursor_.Next().text;
  const Builtin* test = FindTest(name);
  if (test == nullptr) return TemplateError(line, absl::StrCat("unknown test '", name, "'"));
  if ((name == "defined" || name == "undefined") && subject->kind == ExpressionKind::kVariable) {
    questioned_.insert(subject->name);
  }
  CallArguments arguments;
  if (cursor_.AtOperator("(")) {
    BATON_ASSIGN_OR_RETURN(arguments, primary_.ParseArguments());
  } else if (!test->parameters.empty()) {
    const TokenCursor::Nesting nesting(cursor_);
    BATON_RETURN_IF_ERROR(nesting.Check());
    BATON_ASSIGN_OR_RETURN(ExpressionPtr argument, primary_.ParsePrimary());
    BATON_ASSIGN_OR_RETURN(argument, primary_.ParsePostfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node,
                         MakeBuiltinCall(*test, line, std::move(subject), std::move(arguments)));
  if (!negated) return node;
  return MakeUnary(Operator::kNot, line, std::move(node));
}

}  // namespace baton::jinja
