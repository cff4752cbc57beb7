// Parses the expressions inside a template's tags: Jinja's grammar and precedence.
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

// A cursor over the tokens, shared with the statement parser. Not thread-safe.
class ExpressionParser {
 public:
  // REQUIRES: `tokens` ends with kEnd and outlives the parser.
  explicit ExpressionParser(const std::vector<Token>& tokens) : tokens_(tokens) {}

  // A whole expression; with `conditional` false, `x if y` stops before the `if`.
  absl::StatusOr<ExpressionPtr> ParseExpression(bool conditional = true);
  // The same, where commas make a list.
  absl::StatusOr<ExpressionPtr> ParseExpressionList(bool conditional);

  const Token& Peek() const { return tokens_[position_]; }
  const Token& Next();
  bool AtOperator(absl::string_view op) const;
  bool AtName(absl::string_view name) const;
  bool TakeOperator(absl::string_view op);
  bool TakeName(absl::string_view name);
  absl::Status ExpectOperator(absl::string_view op);
  // A name that is no reserved word.
  absl::StatusOr<std::string> ExpectVariable();
  absl::Status Unexpected() const;

  // Counts one level of nesting for its lifetime.
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
  const std::vector<FunctionCall>& calls() const { return calls_; }
  // Names that the template asks about with `is defined` or `is undefined`.
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
  // Sets the depth, which is bounded.
  static absl::StatusOr<ExpressionPtr> Finish(ExpressionPtr node);
  static absl::StatusOr<ExpressionPtr> Binary(ExpressionKind kind, Operator op, int line,
                                              ExpressionPtr left, ExpressionPtr right);
  // Puts the arguments in the order of the builtin's parameters.
  static absl::StatusOr<ExpressionPtr> Bind(const Builtin& builtin, int line, ExpressionPtr subject,
                                            CallArguments arguments);

  const std::vector<Token>& tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
  std::vector<FunctionCall> calls_;
  std::set<std::string> questioned_;
};

}  // namespace baton::jinja
