// The innermost level of the expression grammar: literals, names, attributes, subscripts, calls.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/expression_parser.h"

namespace baton::jinja {
namespace {

constexpr std::array<absl::string_view, 9> kLoopAttributes = {
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"};

}  // namespace

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePrimary() {
  const Token& token = Peek();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseStringLiteral();
    case TokenKind::kInteger:
    case TokenKind::kFloat: {
      ExpressionPtr node = Make(ExpressionKind::kLiteral, Next().line);
      if (token.kind == TokenKind::kInteger) {
        node->literal = Value{token.integer};
      } else {
        node->literal = Value{token.number};
      }
      return node;
    }
    default:
      if (AtOperator("(")) return ParseParenthesis();
      if (AtOperator("[")) return ParseListLiteral();
      if (AtOperator("{")) return ParseDictLiteral();
      return Unexpected();
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseName() {
  const int line = Peek().line;
  BATON_ASSIGN_OR_RETURN(std::string name, ExpectVariable());
  ExpressionPtr node = Make(ExpressionKind::kLiteral, line);
  if (name == "true" || name == "True") {
    node->literal = Value{true};
  } else if (name == "false" || name == "False") {
    node->literal = Value{false};
  } else if (name == "none" || name == "None") {
    node->literal = Value{None{}};
  } else {
    node->kind = ExpressionKind::kVariable;
    node->name = std::move(name);
  }
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseStringLiteral() {
  ExpressionPtr node = Make(ExpressionKind::kLiteral, Peek().line);
  node->literal_text = std::make_unique<Text>();
  while (Peek().kind == TokenKind::kString) node->literal_text->Append(Next().text, true);
  node->literal = Value{static_cast<const Text*>(node->literal_text.get())};
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseParenthesis() {
  const int line = Next().line;
  if (TakeOperator(")")) return Make(ExpressionKind::kList, line);
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, ParseExpressionList(true));
  BATON_RETURN_IF_ERROR(ExpectOperator(")"));
  return node;
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseListLiteral() {
  ExpressionPtr node = Make(ExpressionKind::kList, Next().line);
  while (!TakeOperator("]")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(ExpectOperator(","));
      if (TakeOperator("]")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    node->operands.push_back(std::move(item));
  }
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseDictLiteral() {
  ExpressionPtr node = Make(ExpressionKind::kDict, Next().line);
  while (!TakeOperator("}")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(ExpectOperator(","));
      if (TakeOperator("}")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    BATON_RETURN_IF_ERROR(ExpectOperator(":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
  }
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr subject) {
  while (true) {
    if (AtOperator(".")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseDot(std::move(subject)));
    } else if (AtOperator("[")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseSubscript(std::move(subject)));
    } else if (AtOperator("(")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseCall(std::move(subject)));
    } else {
      return subject;
    }
  }
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseDot(ExpressionPtr subject) {
  const int line = Next().line;
  if (Peek().kind == TokenKind::kInteger) {  // list.0 is list[0]
    ExpressionPtr node = Make(ExpressionKind::kSubscript, line);
    node->operands.push_back(std::move(subject));
    node->operands.push_back(Make(ExpressionKind::kLiteral, line));
    node->operands.back()->literal = Value{Next().integer};
    return Finish(std::move(node));
  }
  if (Peek().kind != TokenKind::kName) return Unexpected();
  ExpressionPtr node = Make(ExpressionKind::kAttribute, line);
  node->name = Next().text;
  const bool of_loop = subject->kind == ExpressionKind::kVariable && subject->name == "loop";
  if (of_loop && std::find(kLoopAttributes.begin(), kLoopAttributes.end(), node->name) ==
                     kLoopAttributes.end()) {
    return TemplateError(line, absl::StrCat("unknown attribute 'loop.", node->name, "'"));
  }
  node->operands.push_back(std::move(subject));
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseSubscript(ExpressionPtr subject) {
  ExpressionPtr node = Make(ExpressionKind::kSubscript, Next().line);
  node->operands.push_back(std::move(subject));
  for (int part = 0; part < 3; ++part) {
    node->operands.push_back(nullptr);
    if (!AtOperator(":") && !AtOperator("]")) {
      BATON_ASSIGN_OR_RETURN(node->operands.back(), ParseExpression());
    }
    if (!TakeOperator(":")) break;
    node->kind = ExpressionKind::kSlice;
  }
  BATON_RETURN_IF_ERROR(ExpectOperator("]"));
  if (node->kind == ExpressionKind::kSlice) {
    node->operands.resize(4);
  } else if (node->operands.back() == nullptr) {
    return TemplateError(node->line, "empty subscript '[]'");
  }
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  const int line = Peek().line;
  BATON_ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  if (callee->kind == ExpressionKind::kAttribute) {
    const Builtin* method = FindMethod(callee->name);
    if (method == nullptr) {
      return TemplateError(line, absl::StrCat("unknown method '", callee->name, "'"));
    }
    return Bind(*method, line, std::move(callee->operands[0]), std::move(arguments));
  }
  if (callee->kind != ExpressionKind::kVariable) {
    return TemplateError(line, "unsupported: a call of something that is not a name");
  }
  calls_.push_back({.name = callee->name, .line = line});
  ExpressionPtr node = Make(ExpressionKind::kCall, line);
  node->name = callee->name;
  node->operands = std::move(arguments.positional);
  node->named = std::move(arguments.named);
  return Finish(std::move(node));
}

absl::StatusOr<ExpressionParser::CallArguments> ExpressionParser::ParseArguments() {
  CallArguments arguments;
  BATON_RETURN_IF_ERROR(ExpectOperator("("));
  bool first = true;
  while (!TakeOperator(")")) {
    if (!first) {
      BATON_RETURN_IF_ERROR(ExpectOperator(","));
      if (TakeOperator(")")) break;
    }
    first = false;
    const bool named = Peek().kind == TokenKind::kName &&
                       tokens_[position_ + 1].kind == TokenKind::kOperator &&
                       tokens_[position_ + 1].text == "=";
    if (!named) {
      if (!arguments.named.empty()) return Unexpected();
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments.positional.push_back(std::move(value));
      continue;
    }
    BATON_ASSIGN_OR_RETURN(std::string name, ExpectVariable());
    BATON_RETURN_IF_ERROR(ExpectOperator("="));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    arguments.named.emplace_back(std::move(name), std::move(value));
  }
  return arguments;
}

}  // namespace baton::jinja
