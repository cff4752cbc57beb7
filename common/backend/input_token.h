// One token of a pass's input, which may not be known yet when the pass is asked for.
#pragma once

#include <cstdint>

namespace baton {

// A token id, or the row of the last step whose sampled token it is. The backends' kernels read it
// too.
class InputToken {
 public:
  constexpr InputToken() = default;  // id 0
  static constexpr InputToken Id(int32_t id) { return {Kind::kId, id}; }
  static constexpr InputToken PendingRow(int row) { return {Kind::kPendingRow, row}; }

  constexpr bool pending() const { return kind_ == Kind::kPendingRow; }
  // REQUIRES: !pending().
  constexpr int32_t id() const { return value_; }
  // The index of the token in StepSampler::sampled_ids. REQUIRES: pending().
  constexpr int pending_row() const { return value_; }

 private:
  enum class Kind : int32_t { kId, kPendingRow };
  constexpr InputToken(Kind kind, int32_t value) : kind_(kind), value_(value) {}

  Kind kind_ = Kind::kId;
  int32_t value_ = 0;
};

}  // namespace baton
