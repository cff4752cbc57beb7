// Guesses the next tokens of sequences that decode, so that a step may make several tokens of one
// sequence.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"
#include "common/engine/block_ledger.h"
#include "common/engine/draft_model.h"
#include "common/engine/schedule.h"
#include "common/engine/sequence.h"
#include "common/speculation/proposer.h"
#include "common/speculation/row_costs.h"
#include "common/speculation/speculation_mode.h"

namespace baton {

// Adds guesses to a step that is chosen already. They take rows that the step does not need
// otherwise, and free blocks. The guesses, and the time of earlier steps, affect only how many
// tokens a step makes, never which: a guess counts only if the sampled token is the same.
//
// A sequence is guessed for once it has produced a token here, while it decodes and its last output
// is known. Where its grammar forces the next text, the tokens that are likely to spell it are the
// guesses, with what the proposer expects behind them; else those of the proposer; and where it has
// none, those of the draft model, which is asked for all sequences of a step at once. No guess is
// one that the grammar forbids.
//
// The draft model's time is measured too. A sequence whose drafts do not pay has none until what it
// showed has faded.
//
// Thread rule: one thread, the engine's. Borrows the ledger and the draft model.
class Guesser {
 public:
  struct Options {
    SpeculationMode mode = SpeculationMode::kNone;
    int most_samples = 0;  // tokens that a step samples
    std::function<std::unique_ptr<Proposer>()> make_proposer;
    DraftModel* draft = nullptr;  // null: there is none
  };
  Guesser(Options options, BlockLedger& ledger);

  // Adds guesses to the decodes of the schedule, which is enqueued next. It has at most
  // `row_budget` rows then, or those that it had.
  void AddTo(Schedule& schedule, int row_budget);
  // Lets the draft model compute the known tokens of sequences that have their blocks, or wait for
  // their KV, before it has to guess for them. Uses the rows that the step of the last AddTo left
  // of its budget, kChunkTokens at most. Returns whether there was anything to compute.
  bool CatchUp(absl::Span<Sequence* const> sequences);
  // The step of this schedule took `duration`.
  void StepDone(const Schedule& schedule, absl::Duration duration);
  // The first `accepted` guesses of `scheduled` came true; `first` is the token sampled before
  // them.
  void Checked(const ScheduledTokens& scheduled, int accepted, const OutputToken& first);
  // The sequence continues after the tokens that the step made.
  void Continue(Sequence& sequence);
  // The step made no token for the sequence, because its mask was not ready.
  void Missed(Sequence& sequence);

 private:
  SpeculationMode ModeOf(const Sequence& sequence) const;
  int LengthFor(const Sequence& sequence, int most) const;
  int DraftLengthFor(const Sequence& sequence) const;
  int CountRoom(const Schedule& schedule, int row_budget);
  void Draft(const Schedule& schedule, int room);
  void Propose(Sequence& sequence) const;

  const Options options_;
  BlockLedger& ledger_;
  RowCosts costs_;
  // The step that is chosen, or the last one: its rows, and the tokens that it is expected to make.
  int step_rows_ = 0;
  double step_tokens_ = 0;
  int spare_rows_ = 0;         // rows of the step's budget that no sequence and no draft has taken
  absl::Duration draft_time_;  // mean time of one guess of the draft model; zero: not known yet
};

}  // namespace baton
