// A regular expression that cuts text into its matches and what lies between them.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/base/clock.h"

namespace baton {

// How many steps an expression may still take for one text, and how much CPU time of the thread that
// made the budget, so that a text takes linear time whatever the expression. PCRE2 counts no step for
// the bytes that a repeat of one class takes, and none for each place where it begins again: only
// the clock counts those.
class SplitBudget {
 public:
  explicit SplitBudget(size_t text_bytes, absl::Duration free_time = absl::Seconds(1))
      : steps_((uint64_t{1} << 20) + kStepsOfByte * uint64_t{text_bytes}),
        end_(ThreadCpuTime() + free_time + text_bytes * kTimeOfByte) {}
  // False once there is nothing left.
  bool Spend(uint64_t steps) {
    steps_ = steps < steps_ ? steps_ - steps : 0;
    return steps_ > 0;
  }
  bool HasTime() const { return ThreadCpuTime() < end_; }

 private:
  static constexpr uint64_t kStepsOfByte = 512;
  static constexpr absl::Duration kTimeOfByte =
      absl::Microseconds(2);  // with what pieces are used for

  uint64_t steps_;
  absl::Duration end_;
};

// Immutable and thread-safe; movable.
class SplitExpression {
 public:
  // `expression` is of Oniguruma (regex_dialect.h). If `use_jit`, it becomes machine code if
  // that is possible; it matches the same. INVALID_ARGUMENT or UNIMPLEMENTED quotes it.
  static absl::StatusOr<SplitExpression> Create(absl::string_view expression, bool use_jit = true);
  SplitExpression(SplitExpression&&) noexcept;
  SplitExpression& operator=(SplitExpression&&) noexcept;
  ~SplitExpression();

  // Calls `piece` for each match and each text between matches, in order; an empty match is one
  // too. Their concatenation is `text`. RESOURCE_EXHAUSTED if the expression takes more steps or time
  // than the budget has: only expressions whose cost grows faster than a text do that. REQUIRES: `text`
  // is UTF-8.
  absl::Status Split(absl::string_view text, SplitBudget& budget,
                     absl::FunctionRef<void(absl::string_view piece, bool is_match)> piece) const;

 private:
  struct Rep;
  explicit SplitExpression(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
