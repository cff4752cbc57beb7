// The written form of parsed expressions: an operation in parentheses, its name first.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/jinja/expression_parser.h"
#include "common/jinja/lexer.h"
#include "common/jinja/token_cursor.h"
#include "tests/common/jinja/shown_values.h"

namespace baton::jinja {

inline std::string Named(const Expression& node) {
  switch (node.kind) {
    case ExpressionKind::kList:
      return "list";
    case ExpressionKind::kDict:
      return "dict";
    case ExpressionKind::kAttribute:
      return absl::StrCat(".", node.name);
    case ExpressionKind::kSubscript:
      return "[]";
    case ExpressionKind::kSlice:
      return "[:]";
    case ExpressionKind::kAnd:
      return "and";
    case ExpressionKind::kOr:
      return "or";
    case ExpressionKind::kConditional:
      return "if";
    case ExpressionKind::kBuiltin:
      return std::string(node.builtin->name);
    case ExpressionKind::kCall:
      return absl::StrCat(node.name, "()");
    default:
      break;
  }
  constexpr absl::string_view kOperators[] = {"+",  "-",  "*",      "/", "//", "%",
                                              "~",  "==", "!=",     "<", "<=", ">",
                                              ">=", "in", "not in", "-", "+",  "not"};
  return std::string(kOperators[static_cast<size_t>(node.op)]);
}

// An operand that is not there is _.
inline std::string Tree(const Expression* node) {
  if (node == nullptr) return "_";
  if (node->kind == ExpressionKind::kLiteral) return Shown(node->literal);
  if (node->kind == ExpressionKind::kVariable) return node->name;
  std::string tree = absl::StrCat("(", Named(*node));
  for (const auto& operand : node->operands) absl::StrAppend(&tree, " ", Tree(operand.get()));
  for (const auto& [name, value] : node->named)
    absl::StrAppend(&tree, " ", name, "=", Tree(value.get()));
  return tree + ")";
}

// The tree of the expression, or "error: ..."; a rest that is no part of it stands after a bar.
inline std::string Parsed(absl::string_view expression) {
  const auto tokens = Tokenize(absl::StrCat("{{ ", expression, " }}"));
  if (!tokens.ok()) return absl::StrCat("error: ", tokens.status().message());
  TokenCursor cursor(*tokens);
  ExpressionParser parser(cursor);
  cursor.Next();
  const auto node = parser.ParseExpression();
  if (!node.ok()) return absl::StrCat("error: ", node.status().message());
  const bool whole = cursor.Peek().kind == TokenKind::kOutputEnd;
  return absl::StrCat(Tree(node->get()), whole ? "" : absl::StrCat(" | ", cursor.Peek().text));
}

}  // namespace baton::jinja
