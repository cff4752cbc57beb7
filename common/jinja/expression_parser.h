// Parses the expressions inside a template's tags: Jinja's grammar and precedence.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/jinja/expression_nodes.h"
#include "common/jinja/primary_parser.h"
#include "common/jinja/token_cursor.h"

namespace baton::jinja {

// Not thread-safe.
class ExpressionParser {
 public:
  // Borrows the cursor, which the statement parser moves as well.
  explicit ExpressionParser(TokenCursor& cursor) : cursor_(cursor), primary_(cursor, *this) {}
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;

  // Parses a whole expression. Without `conditional` it stops before the `if` of `x if y`.
  absl::StatusOr<ExpressionPtr> ParseExpression(bool conditional = true);
  // Parses an expression or several with commas between them, which make a list.
  absl::StatusOr<ExpressionPtr> ParseExpressionList(bool conditional);

  const std::vector<FunctionCall>& calls() const { return primary_.calls(); }
  // Names that the template asks about with `is defined` or `is undefined`.
  const std::set<std::string>& questioned() const { return questioned_; }

 private:
  absl::StatusOr<ExpressionPtr> ParseOr();
  absl::StatusOr<ExpressionPtr> ParseAnd();
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseComparison();
  absl::StatusOr<ExpressionPtr> ParseSum();
  absl::StatusOr<ExpressionPtr> ParseConcatenation();
  absl::StatusOr<ExpressionPtr> ParseProduct();
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filters);
  absl::StatusOr<ExpressionPtr> ParseFilter(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr subject);
  bool TakeComparison(Operator& op);

  TokenCursor& cursor_;
  PrimaryParser primary_;
  std::set<std::string> questioned_;
};

}  // namespace baton::jinja
