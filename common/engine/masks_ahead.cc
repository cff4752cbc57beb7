#include "common/engine/masks_ahead.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace baton {
namespace {

std::vector<int32_t> OutputsOf(const Sequence& sequence) {
  const std::vector<int32_t>& ids = sequence.tokens.ids;
  return {ids.begin() + sequence.request.prompt_length, ids.end()};
}

// Whether the next output of a sequence that waits or runs is one to make a mask for.
bool IsDue(const Sequence& sequence) {
  return !sequence.awaits_kv() && sequence.tokens.pending_outputs == 0 &&
         sequence.tokens.form->mask.empty();
}

// Takes over the mask if it is there.
void Take(SequenceForm& form) {
  MaskJob& job = *form.job;
  if (!job.done) return;
  form.state = std::move(job.state);
  form.mask = std::move(job.mask);
  form.why = std::move(job.why);
  form.job.reset();
}

// Makes the mask here and now. Returns whether there was enough time.
bool MakeNow(SequenceForm& form) {
  std::vector<uint32_t> mask = form.EmptyMask();
  form.why = form.state.FillMask(absl::MakeSpan(mask));
  if (form.state.stalled()) return false;
  if (!form.why.ok()) mask = form.EmptyMask();
  form.mask = std::move(mask);
  return true;
}

}  // namespace

void MasksAhead::Prepare() {
  under_way_ = 0;
  for (const SequenceTable::Line* line : {&sequences_.waiting(), &sequences_.running()}) {
    for (Sequence* sequence : *line) {
      if (sequence->tokens.form) Prepare(*sequence);
    }
  }
}

// Returns the time that the form's next calls on the engine's thread may take.
absl::Duration MasksAhead::LeftFor(const SequenceForm& form) const {
  constexpr int kAtOnce = 10;  // outputs
  const absl::Duration most = kAtOnce * patience_;
  const auto outputs = static_cast<int64_t>(form.state.accepted() - form.accepted_before);
  const absl::Duration left = most + outputs * patience_ - (form.state.spent() - form.spent_before);
  return std::clamp(left, absl::ZeroDuration(), most);
}

void MasksAhead::Prepare(Sequence& sequence) {
  SequenceForm& form = *sequence.tokens.form;
  if (form.job != nullptr) {
    Take(form);
  } else if (!form.is_slow()) {
    GrammarBudget budget = form.state.budget();
    budget.at_once = LeftFor(form);
    form.state.SetBudget(budget);
  }
  if (form.job == nullptr && IsDue(sequence)) {
    *form.slow |= patience_ <= absl::ZeroDuration() || form.state.stalled() ||
                  (sequence.next_is_of_chunk() && !MakeNow(form));
    if (form.is_slow() && form.mask.empty()) {
      form.job = thread_.Ask(std::move(form.state), OutputsOf(sequence));
    }
  }
  if (form.job != nullptr) ++under_way_;
}

}  // namespace baton
