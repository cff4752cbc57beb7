// A place in the tokens of a template, for its parsers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/lexer.h"

namespace baton::jinja {

// All parsers of a template share one. Not thread-safe.
class TokenCursor {
 public:
  // REQUIRES: `tokens` ends with kEnd and outlives the cursor.
  explicit TokenCursor(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& Peek() const { return tokens_[position_]; }
  // The token after that; at the end, the end.
  const Token& PeekSecond() const;
  // The current token; moves past it, but never past the end.
  const Token& Next();

  bool AtOperator(absl::string_view op) const;
  bool AtName(absl::string_view name) const;
  // Moves past the token if it is there, and returns whether it was.
  bool TakeOperator(absl::string_view op);
  bool TakeName(absl::string_view name);
  absl::Status ExpectOperator(absl::string_view op);
  // A name that is no reserved word.
  absl::StatusOr<std::string> ExpectVariable();
  // The error about the current token.
  absl::Status Unexpected() const;

  // Counts one level of nesting for its lifetime.
  class Nesting {
   public:
    explicit Nesting(TokenCursor& cursor) : cursor_(cursor) { ++cursor_.nesting_; }
    ~Nesting() { --cursor_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    // An error if there are more levels than kMaxNesting.
    absl::Status Check() const;

   private:
    TokenCursor& cursor_;
  };

 private:
  const std::vector<Token>& tokens_;
  size_t position_ = 0;
  int nesting_ = 0;
};

}  // namespace baton::jinja
