// Makes the nodes of an expression's tree.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "common/jinja/ast.h"

namespace baton::jinja {

using ExpressionPtr = std::unique_ptr<Expression>;

// What stands in the parentheses of a call.
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

ExpressionPtr MakeNode(ExpressionKind kind, int line);
// Sets the depth of a node that has all its operands. An error beyond kMaxExpressionDepth.
absl::StatusOr<ExpressionPtr> FinishNode(ExpressionPtr node);
absl::StatusOr<ExpressionPtr> MakeUnary(Operator op, int line, ExpressionPtr operand);
absl::StatusOr<ExpressionPtr> MakeBinary(ExpressionKind kind, Operator op, int line,
                                         ExpressionPtr left, ExpressionPtr right);
// Puts the arguments in the order of the builtin's parameters. An error names the builtin and the
// argument that it does not take or lacks.
absl::StatusOr<ExpressionPtr> MakeBuiltinCall(const Builtin& builtin, int line,
                                              ExpressionPtr subject, CallArguments arguments);

}  // namespace baton::jinja
