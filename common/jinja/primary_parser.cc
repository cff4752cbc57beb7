#include "common/jinja/primary_parser.h"

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

absl::StatusOr<ExpressionPtr> PrimaryParser::ParsePrimary() {
  const Token& token = cursor_.Peek();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseStringLiteral();
    case TokenKind::kInteger:
    case TokenKind::kFloat: {
      ExpressionPtr node = MakeNode(ExpressionKind::kLiteral, cursor_.Next().line);
      if (token.kind == TokenKind::kInteger) {
        node->literal = Value{token.integer};
      } else {
        node->literal = Value{token.number};
      }
      return node;
    }
    default:
      if (cursor_.AtOperator("(")) return ParseParenthesis();
      if (cursor_.AtOperator("[")) return ParseListLiteral();
      if (cursor_.AtOperator("{")) return ParseDictLiteral();
      return cursor_.Unexpected();
  }
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseName() {
  const int line = cursor_.Peek().line;
  BATON_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectVariable());
  ExpressionPtr node = MakeNode(ExpressionKind::kLiteral, line);
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

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseStringLiteral() {
  ExpressionPtr node = MakeNode(ExpressionKind::kLiteral, cursor_.Peek().line);
  node->literal_text = std::make_unique<Text>();
  while (cursor_.Peek().kind == TokenKind::kString)
    node->literal_text->Append(cursor_.Next().text, true);
  node->literal = Value{static_cast<const Text*>(node->literal_text.get())};
  return node;
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseParenthesis() {
  const int line = cursor_.Next().line;
  if (cursor_.TakeOperator(")")) return MakeNode(ExpressionKind::kList, line);
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, expressions_.ParseExpressionList(true));
  BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(")"));
  return node;
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseListLiteral() {
  ExpressionPtr node = MakeNode(ExpressionKind::kList, cursor_.Next().line);
  while (!cursor_.TakeOperator("]")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      if (cursor_.TakeOperator("]")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, expressions_.ParseExpression());
    node->operands.push_back(std::move(item));
  }
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseDictLiteral() {
  ExpressionPtr node = MakeNode(ExpressionKind::kDict, cursor_.Next().line);
  while (!cursor_.TakeOperator("}")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      if (cursor_.TakeOperator("}")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr key, expressions_.ParseExpression());
    BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
  }
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParsePostfix(ExpressionPtr subject) {
  while (true) {
    if (cursor_.AtOperator(".")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseDot(std::move(subject)));
    } else if (cursor_.AtOperator("[")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseSubscript(std::move(subject)));
    } else if (cursor_.AtOperator("(")) {
      BATON_ASSIGN_OR_RETURN(subject, ParseCall(std::move(subject)));
    } else {
      return subject;
    }
  }
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseDot(ExpressionPtr subject) {
  const int line = cursor_.Next().line;
  if (cursor_.Peek().kind == TokenKind::kInteger) {  // list.0 is list[0]
    ExpressionPtr node = MakeNode(ExpressionKind::kSubscript, line);
    node->operands.push_back(std::move(subject));
    node->operands.push_back(MakeNode(ExpressionKind::kLiteral, line));
    node->operands.back()->literal = Value{cursor_.Next().integer};
    return FinishNode(std::move(node));
  }
  if (cursor_.Peek().kind != TokenKind::kName) return cursor_.Unexpected();
  ExpressionPtr node = MakeNode(ExpressionKind::kAttribute, line);
  node->name = cursor_.Next().text;
  const bool of_loop = subject->kind == ExpressionKind::kVariable && subject->name == "loop";
  if (of_loop && std::find(kLoopAttributes.begin(), kLoopAttributes.end(), node->name) ==
                     kLoopAttributes.end()) {
    return TemplateError(line, absl::StrCat("unknown attribute 'loop.", node->name, "'"));
  }
  node->operands.push_back(std::move(subject));
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseSubscript(ExpressionPtr subject) {
  ExpressionPtr node = MakeNode(ExpressionKind::kSubscript, cursor_.Next().line);
  node->operands.push_back(std::move(subject));
  for (int part = 0; part < 3; ++part) {
    node->operands.push_back(nullptr);
    if (!cursor_.AtOperator(":") && !cursor_.AtOperator("]")) {
      BATON_ASSIGN_OR_RETURN(node->operands.back(), expressions_.ParseExpression());
    }
    if (!cursor_.TakeOperator(":")) break;
    node->kind = ExpressionKind::kSlice;
  }
  BATON_RETURN_IF_ERROR(cursor_.ExpectOperator("]"));
  if (node->kind == ExpressionKind::kSlice) {
    node->operands.resize(4);
  } else if (node->operands.back() == nullptr) {
    return TemplateError(node->line, "empty subscript '[]'");
  }
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> PrimaryParser::ParseCall(ExpressionPtr callee) {
  const int line = cursor_.Peek().line;
  BATON_ASSIGN_OR_RETURN(CallArguments arguments, ParseArguments());
  if (callee->kind == ExpressionKind::kAttribute) {
    const Builtin* method = FindMethod(callee->name);
    if (method == nullptr) {
      return TemplateError(line, absl::StrCat("unknown method '", callee->name, "'"));
    }
    return MakeBuiltinCall(*method, line, std::move(callee->operands[0]), std::move(arguments));
  }
  if (callee->kind != ExpressionKind::kVariable) {
    return TemplateError(line, "unsupported: a call of something that is not a name");
  }
  calls_.push_back({.name = callee->name, .line = line});
  ExpressionPtr node = MakeNode(ExpressionKind::kCall, line);
  node->name = callee->name;
  node->operands = std::move(arguments.positional);
  node->named = std::move(arguments.named);
  return FinishNode(std::move(node));
}

absl::StatusOr<CallArguments> PrimaryParser::ParseArguments() {
  CallArguments arguments;
  BATON_RETURN_IF_ERROR(cursor_.ExpectOperator("("));
  bool first = true;
  while (!cursor_.TakeOperator(")")) {
    if (!first) {
      BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      if (cursor_.TakeOperator(")")) break;
    }
    first = false;
    const bool named = cursor_.Peek().kind == TokenKind::kName &&
                       cursor_.PeekSecond().kind == TokenKind::kOperator &&
                       cursor_.PeekSecond().text == "=";
    if (!named) {
      if (!arguments.named.empty()) return cursor_.Unexpected();
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
      arguments.positional.push_back(std::move(value));
      continue;
    }
    BATON_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectVariable());
    BATON_RETURN_IF_ERROR(cursor_.ExpectOperator("="));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.ParseExpression());
    arguments.named.emplace_back(std::move(name), std::move(value));
  }
  return arguments;
}

}  // namespace baton::jinja
