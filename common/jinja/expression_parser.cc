#include "common/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/parser.h"

namespace baton::jinja {
namespace {

constexpr std::array<absl::string_view, 7> kReserved = {"and",  "or", "not", "if",
                                                        "else", "in", "is"};
bool IsReserved(absl::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

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

const Token& ExpressionParser::Next() {
  const Token& token = tokens_[position_];
  if (token.kind != TokenKind::kEnd) ++position_;
  return token;
}

bool ExpressionParser::AtOperator(absl::string_view op) const {
  return Peek().kind == TokenKind::kOperator && Peek().text == op;
}

bool ExpressionParser::AtName(absl::string_view name) const {
  return Peek().kind == TokenKind::kName && Peek().text == name;
}

bool ExpressionParser::TakeOperator(absl::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool ExpressionParser::TakeName(absl::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

absl::Status ExpressionParser::ExpectOperator(absl::string_view op) {
  if (TakeOperator(op)) return absl::OkStatus();
  return TemplateError(Peek().line, absl::StrCat("expected '", op, "' before '", Peek().text, "'"));
}

absl::StatusOr<std::string> ExpressionParser::ExpectVariable() {
  if (Peek().kind != TokenKind::kName || IsReserved(Peek().text)) return Unexpected();
  return Next().text;
}

absl::Status ExpressionParser::Unexpected() const {
  const Token& token = Peek();
  if (token.kind == TokenKind::kEnd) {
    return TemplateError(token.line, "unexpected end of the template");
  }
  return TemplateError(token.line, absl::StrCat("unexpected '", token.text, "'"));
}

absl::Status ExpressionParser::Nesting::Check() const {
  if (parser_.nesting_ <= kMaxNesting) return absl::OkStatus();
  return TemplateError(parser_.Peek().line, absl::StrCat("nested deeper than ", kMaxNesting));
}

ExpressionPtr ExpressionParser::Make(ExpressionKind kind, int line) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Finish(ExpressionPtr node) {
  for (const ExpressionPtr& operand : node->operands) {
    if (operand != nullptr) node->depth = std::max(node->depth, operand->depth + 1);
  }
  for (const auto& argument : node->named) {
    node->depth = std::max(node->depth, argument.second->depth + 1);
  }
  if (node->depth > kMaxExpressionDepth) {
    return TemplateError(
        node->line, absl::StrCat("an expression of more than ", kMaxExpressionDepth, " parts"));
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Binary(ExpressionKind kind, Operator op, int line,
                                                       ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr node = Make(kind, line);
  node->op = op;
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseExpression(bool conditional) {
  const Nesting nesting(*this);
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, ParseOr());
  while (conditional && AtName("if")) {
    ExpressionPtr choice = Make(ExpressionKind::kConditional, Next().line);
    choice->operands.push_back(std::move(node));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    choice->operands.push_back(std::move(condition));
    choice->operands.push_back(nullptr);
    if (TakeName("else")) {
      BATON_ASSIGN_OR_RETURN(choice->operands.back(), ParseExpression());
    }
    BATON_ASSIGN_OR_RETURN(node, Finish(std::move(choice)));
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseExpressionList(bool conditional) {
  const int line = Peek().line;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(conditional));
  if (!AtOperator(",")) return first;
  ExpressionPtr list = Make(ExpressionKind::kList, line);
  list->operands.push_back(std::move(first));
  while (TakeOperator(",")) {
    if (Peek().kind == TokenKind::kTagEnd || AtOperator(")")) break;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(conditional));
    list->operands.push_back(std::move(item));
  }
  return Finish(std::move(list));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseOr() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (AtName("or")) {
    const int line = Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    BATON_ASSIGN_OR_RETURN(
        left, Binary(ExpressionKind::kOr, Operator::kNot, line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseAnd() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (AtName("and")) {
    const int line = Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    BATON_ASSIGN_OR_RETURN(left, Binary(ExpressionKind::kAnd, Operator::kNot, line, std::move(left),
                                        std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseNot() {
  if (!AtName("not")) return ParseComparison();
  const Nesting nesting(*this);
  BATON_RETURN_IF_ERROR(nesting.Check());
  ExpressionPtr node = Make(ExpressionKind::kUnary, Next().line);
  node->op = Operator::kNot;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  node->operands.push_back(std::move(operand));
  return Finish(std::move(node));
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
    if (!TakeOperator(symbol)) continue;
    op = candidate;
    return true;
  }
  if (TakeName("in")) {
    op = Operator::kIn;
    return true;
  }
  const bool not_in = AtName("not") && tokens_[position_ + 1].kind == TokenKind::kName &&
                      tokens_[position_ + 1].text == "in";
  if (!not_in) return false;
  position_ += 2;
  op = Operator::kNotIn;
  return true;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseComparison() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseSum());
  const int line = Peek().line;
  Operator op;
  if (!TakeComparison(op)) return left;
  BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseSum());
  Operator chained;
  if (TakeComparison(chained)) {
    return TemplateError(line, "unsupported: a chain of comparisons (write it with 'and')");
  }
  return Binary(ExpressionKind::kBinary, op, line, std::move(left), std::move(right));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSum() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenation());
  while (AtOperator("+") || AtOperator("-")) {
    const Token& token = Next();
    const Operator op = token.text == "+" ? Operator::kAdd : Operator::kSubtract;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    BATON_ASSIGN_OR_RETURN(
        left, Binary(ExpressionKind::kBinary, op, token.line, std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseProduct());
  while (AtOperator("~")) {
    const int line = Next().line;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseProduct());
    BATON_ASSIGN_OR_RETURN(left, Binary(ExpressionKind::kBinary, Operator::kConcatenate, line,
                                        std::move(left), std::move(right)));
  }
  return left;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseProduct() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(true));
  while (true) {
    const int line = Peek().line;
    Operator op;
    if (TakeOperator("*")) {
      op = Operator::kMultiply;
    } else if (TakeOperator("/")) {
      op = Operator::kDivide;
    } else if (TakeOperator("//")) {
      op = Operator::kFloorDivide;
    } else if (TakeOperator("%")) {
      op = Operator::kModulo;
    } else if (AtOperator("**")) {
      return TemplateError(line, "unsupported operator '**'");
    } else {
      return left;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    BATON_ASSIGN_OR_RETURN(
        left, Binary(ExpressionKind::kBinary, op, line, std::move(left), std::move(right)));
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  const Nesting nesting(*this);
  BATON_RETURN_IF_ERROR(nesting.Check());
  ExpressionPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const Token& token = Next();
    ExpressionPtr unary = Make(ExpressionKind::kUnary, token.line);
    unary->op = token.text == "-" ? Operator::kNegate : Operator::kPlus;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(false));
    unary->operands.push_back(std::move(operand));
    BATON_ASSIGN_OR_RETURN(node, Finish(std::move(unary)));
  } else {
    BATON_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  BATON_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  while (with_filters && (AtOperator("|") || AtName("is"))) {
    if (AtName("is")) {
      BATON_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else {
      BATON_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    }
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr subject) {
  const int line = Next().line;
  if (Peek().kind != TokenKind::kName) return Unexpected();
  const std::string& name = Next().text;
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr) return TemplateError(line, absl::StrCat("unknown filter '", name, "'"));
  CallArguments arguments;
  if (AtOperator("(")) {
    BATON_ASSIGN_OR_RETURN(arguments, ParseArguments());
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node,
                         Bind(*filter, line, std::move(subject), std::move(arguments)));
  BATON_RETURN_IF_ERROR(CheckNamedBuiltin(*node));
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr subject) {
  const int line = Next().line;
  const bool negated = TakeName("not");
  if (Peek().kind != TokenKind::kName) return Unexpected();
  const std::string& name = Next().text;
  const Builtin* test = FindTest(name);
  if (test == nullptr) return TemplateError(line, absl::StrCat("unknown test '", name, "'"));
  if ((name == "defined" || name == "undefined") && subject->kind == ExpressionKind::kVariable) {
    questioned_.insert(subject->name);
  }
  CallArguments arguments;
  if (AtOperator("(")) {
    BATON_ASSIGN_OR_RETURN(arguments, ParseArguments());
  } else if (!test->parameters.empty()) {
    const Nesting nesting(*this);
    BATON_RETURN_IF_ERROR(nesting.Check());
    BATON_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    BATON_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    arguments.positional.push_back(std::move(argument));
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node,
                         Bind(*test, line, std::move(subject), std::move(arguments)));
  if (!negated) return node;
  ExpressionPtr negation = Make(ExpressionKind::kUnary, line);
  negation->op = Operator::kNot;
  negation->operands.push_back(std::move(node));
  return Finish(std::move(negation));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::Bind(const Builtin& builtin, int line,
                                                     ExpressionPtr subject,
                                                     CallArguments arguments) {
  const auto& parameters = builtin.parameters;
  ExpressionPtr node = Make(ExpressionKind::kBuiltin, line);
  node->builtin = &builtin;
  node->operands.push_back(std::move(subject));
  node->operands.resize(1 + parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return TemplateError(
        line, absl::StrCat("'", builtin.name, "' takes at most ", parameters.size(), " arguments"));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    node->operands[1 + i] = std::move(arguments.positional[i]);
  }
  for (auto& [name, value] : arguments.named) {
    const auto parameter = std::find(parameters.begin(), parameters.end(), name);
    const size_t slot = 1 + static_cast<size_t>(parameter - parameters.begin());
    if (parameter == parameters.end() || node->operands[slot] != nullptr) {
      return TemplateError(line, absl::StrCat("'", builtin.name, "' does not take '", name, "'"));
    }
    node->operands[slot] = std::move(value);
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (node->operands[1 + i] == nullptr) {
      return TemplateError(
          line, absl::StrCat("'", builtin.name, "' lacks its argument '", parameters[i], "'"));
    }
  }
  return Finish(std::move(node));
}

}  // namespace baton::jinja
