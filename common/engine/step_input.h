// The work of a step, in the terms of the model and of the sampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "common/backend/batch.h"
#include "common/backend/step_sampler.h"
#include "common/backend/token_counts.h"
#include "common/engine/schedule.h"
#include "common/kv/layout.h"

namespace baton {

// The masks of one sequence's rows: of its next token, and of those behind its guesses.
struct MaskOrder {
  SequenceForm* form = nullptr;
  absl::Span<const int32_t> guesses = {};
  std::vector<uint32_t> masks = {};  // [1 + guesses, MaskWords(vocab_size)]
};

// The input of a step's pass, and how tokens are sampled from its logits. Points into the schedule
// that it is of, into its sequences, and into itself: it stays where it was made.
struct StepInput {
  StepInput(const Schedule& schedule, const KvLayout& layout);
  StepInput(const StepInput&) = delete;
  StepInput& operator=(const StepInput&) = delete;

  // Fills the masks that `sampled` names and that are not made yet, and calls `done` after each
  // sequence's. It may take as long as a row, so where operations run later, it is called while the
  // pass runs. A sequence whose form is too slow has SequenceForm::missed then.
  void FillMasks(absl::FunctionRef<void()> done);

  Batch batch;
  std::vector<SamplingRow> sampled;
  // [logits rows + 1]: row r of the logits gives samples [first_samples[r], first_samples[r + 1]);
  // if there are none, it gives the next of `scored`.
  std::vector<int> first_samples;
  std::vector<ScoredToken> scored;
  size_t scores_enqueued = 0;      // how many of `scored` have had their row
  std::deque<TokenCounts> counts;  // counts of rows behind guesses
  std::deque<MaskOrder> masks;     // an order for each sequence whose masks are made in the step
  bool masked = false;             // whether any row has a mask

 private:
  void AddTokens(const ScheduledTokens& scheduled, const KvLayout& layout);
  void AddScores(const ScheduledTokens& scheduled);
  const uint32_t* OrderMasks(const ScheduledTokens& scheduled);
  void AddSamples(const Sequence& sequence, const uint32_t* mask);
  // `mask`: that of the row before the guesses.
  void AddSamplesOfGuesses(const ScheduledTokens& scheduled, const uint32_t* mask);
};

}  // namespace baton
