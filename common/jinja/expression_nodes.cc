#include "common/jinja/expression_nodes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/jinja/lexer.h"
#include "common/jinja/parser.h"

namespace baton::jinja {

ExpressionPtr MakeNode(ExpressionKind kind, int line) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

absl::StatusOr<ExpressionPtr> FinishNode(ExpressionPtr node) {
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

absl::StatusOr<ExpressionPtr> MakeBinary(ExpressionKind kind, Operator op, int line,
                                         ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr node = MakeNode(kind, line);
  node->op = op;
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> MakeUnary(Operator op, int line, ExpressionPtr operand) {
  ExpressionPtr node = MakeNode(ExpressionKind::kUnary, line);
  node->op = op;
  node->operands.push_back(std::move(operand));
  return FinishNode(std::move(node));
}

absl::StatusOr<ExpressionPtr> MakeBuiltinCall(const Builtin& builtin, int line,
                                              ExpressionPtr subject, CallArguments arguments) {
  const auto& parameters = builtin.parameters;
  ExpressionPtr node = MakeNode(ExpressionKind::kBuiltin, line);
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
      return TemplateError(line,
                           absl::StrCat("'", builtin.name, "' has no parameter '", name, "'"));
    }
    node->operands[slot] = std::move(value);
  }
  for (size_t i = 0; i < builtin.required; ++i) {
    if (node->operands[1 + i] == nullptr) {
      return TemplateError(
          line, absl::StrCat("'", builtin.name, "' needs an argument '", parameters[i], "'"));
    }
  }
  return FinishNode(std::move(node));
}

}  // namespace baton::jinja
