// Parses the innermost part of the expression grammar: literals, names, and the attributes,
// subscripts and calls that follow them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/jinja/expression_nodes.h"
#include "common/jinja/token_cursor.h"

namespace baton::jinja {

class ExpressionParser;

struct FunctionCall {
  std::string name;
  int line;
};

// Part of an ExpressionParser, which parses what stands in brackets. Not thread-safe.
class PrimaryParser {
 public:
  PrimaryParser(TokenCursor& cursor, ExpressionParser& expressions)
      : cursor_(cursor), expressions_(expressions) {}

  // A literal, a name, or something in brackets.
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  // `subject` with the .name, [index] and (arguments) that follow it.
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr subject);
  // REQUIRES: the cursor is at "(".
  absl::StatusOr<CallArguments> ParseArguments();

  // The calls of functions so far, methods not among them.
  const std::vector<FunctionCall>& calls() const { return calls_; }

 private:
  absl::StatusOr<ExpressionPtr> ParseName();
  absl::StatusOr<ExpressionPtr> ParseStringLiteral();
  absl::StatusOr<ExpressionPtr> ParseParenthesis();
  absl::StatusOr<ExpressionPtr> ParseListLiteral();
  absl::StatusOr<ExpressionPtr> ParseDictLiteral();
  absl::StatusOr<ExpressionPtr> ParseDot(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr callee);

  TokenCursor& cursor_;
  ExpressionParser& expressions_;
  std::vector<FunctionCall> calls_;
};

}  // namespace baton::jinja
