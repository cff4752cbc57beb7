// A regular expression that cuts text into its matches and what lies between them.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// How many steps an expression may still take for one text, so that a text takes linear time
// whatever the expression.
class SplitBudget {
 public:
  explicit SplitBudget(size_t text_bytes)
      : steps_((uint64_t{1} << 20) + kStepsOfByte * uint64_t{text_bytes}) {}
  // False once there is nothing left.
  bool Spend(uint64_t steps) {
    steps_ = steps < steps_ ? steps_ - steps : 0;
    return steps_ > 0;
  }

 private:
  static constexpr uint64_t kStepsOfByte = 512;
  uint64_t steps_;
};

// Immutable and thread-safe; movable.
class SplitExpression {
 public:
  // `expression` is of Oniguruma (regex_dialect.h). If `use_jit`, it becomes machine code where
  // that is possible; it matches the same. INVALID_ARGUMENT or UNIMPLEMENTED quotes it.
  static absl::StatusOr<SplitExpression> Create(absl::string_view expression, bool use_jit = true);
  SplitExpression(SplitExpression&&) noexcept;
  SplitExpression& operator=(SplitExpression&&) noexcept;
  ~SplitExpression();

  // Calls `piece` for each match and each text between matches, in order; an empty match is one
  // too. Their concatenation is `text`. RESOURCE_EXHAUSTED if the expression takes more steps than
  // the budget has: only expressions whose cost grows faster than a text do that. REQUIRES: `text`
  // is UTF-8.
  absl::Status Split(absl::string_view text, SplitBudget& budget,
                     absl::FunctionRef<void(absl::string_view piece, bool is_match)> piece) const;

 private:
  struct Rep;
  explicit SplitExpression(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
