// Runs the steps of an engine: what is in flight, what was launched ahead, and how the results of a
// step are applied.
#pragma once

#include <cstddef>
#include <deque>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/backend/pass_recordings.h"
#include "common/backend/step_sampler.h"
#include "common/engine/block_auditor.h"
#include "common/engine/engine_options.h"
#include "common/engine/engine_stats.h"
#include "common/engine/guesser.h"
#include "common/engine/life_signs.h"
#include "common/engine/schedule.h"
#include "common/engine/sequence_ending.h"
#include "common/engine/sequence_table.h"
#include "common/engine/step_input.h"
#include "common/engine/step_sizer.h"
#include "common/kv/cache.h"
#include "common/model/transformer.h"

namespace baton {

// A step is launched: its pass is enqueued and its sampling behind it. Where the backend computes
// later, the next step may be launched before the tokens of this one are taken. Then the results
// are applied in the order of the steps: sequences get their tokens, and events are reported.
//
// Thread rule: one thread, the engine's. Borrows what it is made with.
class StepPipeline {
 public:
  struct Parts {
    Transformer& model;
    KvCache& cache;
    StepSampler& sampler;
    PassRecordings& recordings;
    SequenceTable& sequences;
    SequenceEnding& ending;
    BlockAuditor& auditor;
    Guesser& guesser;
    EngineStatsBoard& stats;
    LifeSigns& signs;
  };
  // Reads steps_ahead, which must be given, max_num_batched_tokens and max_step_duration.
  StepPipeline(const EngineOptions& options, const Parts& parts);

  // Whether no step is in flight.
  bool empty() const { return in_flight_.empty(); }
  // The rows to give the next step, by the speed of the last ones.
  int row_budget() const { return sizer_.rows(); }

  // Launches the step, then applies the oldest results: all, or all but the last of `steps_ahead`
  // steps. REQUIRES: the batch is not empty; no step in flight may touch what was preempted.
  void Run(Schedule schedule);
  // Applies the oldest steps until at most `count` are in flight.
  void ApplyUntil(size_t count);

 private:
  // A step that was enqueued and whose tokens were not taken yet.
  struct Step {
    Schedule schedule;
    int rows = 0;  // without those of guesses
    absl::Time enqueued;
  };

  void Enqueue(Schedule schedule);
  // Row i of `logits` is logits row first_row + i of the step.
  void Sample(StepInput& step, int first_row, Tensor logits);
  void LayerDone(const Schedule& schedule, int layer);
  // Records the progress of a step, as a sign of life of the engine and its sequences.
  void Advance();
  // Returns the number of accepted guesses.
  int Apply(const Schedule& schedule, absl::Span<absl::StatusOr<OutputToken>> tokens,
            absl::Span<absl::StatusOr<TokenLogprobs>> scores);
  void ComputeAnew(const ScheduledTokens& scheduled);
  // Returns whether the sequence, and what parted from it, goes on.
  bool TellScores(const ScheduledTokens& scheduled,
                  absl::Span<absl::StatusOr<TokenLogprobs>> scores);
  void ApplyComputed(const ScheduledTokens& scheduled);
  int ApplyRun(const ScheduledTokens& scheduled, absl::Span<absl::StatusOr<OutputToken>> tokens);
  int CountAccepted(const ScheduledTokens& scheduled,
                    absl::Span<const absl::StatusOr<OutputToken>> tokens) const;
  // The result of the guesses of the step that makes a token.
  struct Guessed {
    bool is_guess = false;  // the token is one of them
    int refused = 0;
  };
  // Returns whether the sequence goes on.
  bool Produce(Sequence& sequence, absl::StatusOr<OutputToken> token, Guessed guessed);
  void ProducePrefilled(Sequence& sequence, absl::Span<absl::StatusOr<OutputToken>> tokens);

  const size_t steps_ahead_;
  const Parts parts_;
  StepSizer sizer_;
  std::deque<Step> in_flight_;                   // oldest first; at most steps_ahead_ + 1
  absl::Time last_done_ = absl::InfinitePast();  // when the last step was done
};

}  // namespace baton
