// A parser of the expressions inside a template's tags, with Jinja's grammar and precedence.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/ast.h"
#include "common/jinja/lexer.h"

namespace baton::jinja {

using ExpressionPtr = std::unique_ptr<Expression>;

// Recursive descent over the template's tokens. The statement parser uses it as its cursor too. Not
// thread-safe.
class ExpressionParser {
 public:
  // REQUIRES: `tokens` ends with kEnd and outlives the parser.
  explicit ExpressionParser(const std::vector<Token>& tokens) : tokens_(tokens) {}

  // Parses a whole expression. Without `conditional` it stops before the `if` of `x if y`.
  absl::StatusOr<ExpressionPtr> ParseExpression(bool conditional = true);
  // Parses an expression or several with commas between them, which make a list.
  absl::StatusOr<ExpressionPtr> ParseExpressionList(bool conditional);

  // The functions below look at the next token or take it. Errors name the token and its line.
  const Token& Peek() const { return tokens_[position_]; }
  const Token& Next();
  bool AtOperator(absl::string_view op) const;
  bool AtName(absl::string_view name) const;
  bool TakeOperator(absl::string_view op);
  bool TakeName(absl::string_view name);
  absl::Status ExpectOperator(absl::string_view op);
  // Takes a name that is no reserved word.
  absl::StatusOr<std::string> ExpectVariable();
  absl::Status Unexpected() const;

  // Counts one level of nesting as long as it lives. Check fails beyond kMaxNesting.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.nesting_; }
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    absl::Status Check() const;

   private:
    ExpressionParser& parser_;
  };

  struct FunctionCall {
    std::string name;
    int line;
  };
  // All calls of functions that were parsed so far.
  const std::vector<FunctionCall>& calls() const { return calls_; }
  // Names that the template tests with `is defined` or `is undefined`.
  const std::set<std::string>& questioned() const { return questioned_; }

 private:
  struct CallArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
  };

  absl::StatusOr<ExpressionPtr> ParseOr();
  absl::StatusOr<ExpressionPtr> ParseAnd();
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseComparison();
  absl::StatusOr<ExpressionPtr> ParseSum();
  absl::StatusOr<ExpressionPtr> ParseConcatenation();
  absl::StatusOr<ExpressionPtr> ParseProduct();
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filters);
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseName();
  absl::StatusOr<ExpressionPtr> ParseStringLiteral();
  absl::StatusOr<ExpressionPtr> ParseParenthesis();
  absl::StatusOr<ExpressionPtr> ParseListLiteral();
  absl::StatusOr<ExpressionPtr> ParseDictLiteral();
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseDot(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr callee);
  absl::StatusOr<ExpressionPtr> ParseFilter(ExpressionPtr subject);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr subject);
  absl::StatusOr<CallArguments> ParseArguments();
  bool TakeComparison(Operator& op);

  static ExpressionPtr Make(ExpressionKind kind, int line);
  // Sets the depth of a complete node. An error if it exceeds kMaxExpressionDepth.
  static absl::StatusOr<ExpressionPtr> Finish(ExpressionPtr node);
  static absl::StatusOr<ExpressionPtr> Binary(ExpressionKind kind, Operator op, int line,
                                              ExpressionPtr left, ExpressionPtr right);
  // Makes the call of a builtin, with the arguments in the order of its parameters.
  static absl::StatusOr<ExpressionPtr> Bind(const Builtin& builtin, int line, ExpressionPtr subject,
                                            CallArguments arguments);

  const std::vector<Token>& tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  std::vector<FunctionCall> calls_;
  std::set<std::string> questioned_;
};

}  // namespace baton::jinja
