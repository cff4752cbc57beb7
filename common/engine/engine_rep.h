// The state behind engine.h that an engine's steps read and change.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "common/backend/pass_recordings.h"
#include "common/backend/step_sampler.h"
#include "common/engine/engine.h"
#include "common/engine/mailbox.h"
#include "common/engine/rate_meter.h"
#include "common/engine/scheduler.h"
#include "common/engine/step_sizer.h"

namespace baton {

// Thread rule: the engine's thread only, except the mailbox, last_id, progress, and the members
// that stats_mutex guards.
struct Engine::Rep {
  // A step that was enqueued and whose tokens were not taken yet.
  struct Step {
    Schedule schedule;
    int rows = 0;
    absl::Time enqueued;
  };

  Rep(const EngineOptions& engine_options, std::unique_ptr<Transformer> transformer,
      std::unique_ptr<KvCache> kv_cache, std::unique_ptr<StepSampler> step_sampler,
      std::unique_ptr<PassRecordings> pass_recordings);

  void TakeCommands();
  void Obey(SequenceId id, Mailbox::Control& control);
  void Stop(SequenceId id, int choice);
  void Release(Sequence& sequence, std::optional<int> resume_tokens);
  void CommitFirstTokens(Sequence& sequence, const std::vector<OutputToken>& tokens);
  absl::Status CheckFirstTokens(const Sequence& sequence,
                                const std::vector<OutputToken>& tokens) const;
  void PublishStats();

  // engine_step.cc
  void Announce(const Schedule& schedule);
  void Enqueue(Schedule schedule);
  // Row i of `logits` is logits row first_row + i of the step. `first_samples` [logits rows + 1]:
  // row r of the step gives its samples [first_samples[r], first_samples[r + 1]).
  void Sample(absl::Span<const int> first_samples, int first_row, Tensor logits);
  void LayerDone(const Schedule& schedule, int layer);
  // Takes and applies the oldest steps until at most `count` are in flight.
  void ApplyUntil(size_t count);
  void Apply(const Schedule& schedule, absl::Span<absl::StatusOr<OutputToken>> tokens);
  void ApplyComputed(const ScheduledTokens& scheduled);
  void Produce(Sequence& sequence, absl::StatusOr<OutputToken> token);
  void ProducePrefilled(Sequence& sequence, absl::Span<absl::StatusOr<OutputToken>> tokens);
  void Finish(Sequence& sequence);
  void Fail(Sequence& sequence, absl::Status status);
  FinishReason FinishReasonOf(const Sequence& sequence, const OutputToken& token) const;

  static void Tell(const Sequence& sequence, const SequenceEvent& event) {
    if (sequence.request.on_event) sequence.request.on_event(event);
  }
  // Removes the sequence, then tells the event `last` for each of its choices.
  void RemoveAndTell(Sequence& sequence, SequenceEvent last);
  static SequenceFinished TimingsUntil(absl::Time now, const Sequence& sequence);

  const EngineOptions options;
  const std::unique_ptr<Transformer> model;
  const std::unique_ptr<KvCache> cache;
  const std::unique_ptr<StepSampler> sampler;
  const std::unique_ptr<PassRecordings> recordings;
  BlockPool pool;
  PrefixCache prefix_cache;
  Scheduler scheduler;
  Mailbox mailbox;
  StepSizer sizer;
  std::deque<Step> in_flight;                   // oldest first; at most options.steps_ahead + 1
  absl::Time last_done = absl::InfinitePast();  // when the last step was done

  std::atomic<uint64_t> last_id = 0;
  std::atomic<uint64_t> progress = 0;
  EngineStats totals;              // only its counters are kept up to date
  mutable std::mutex stats_mutex;  // guards the members below
  EngineStats stats;
  mutable RateMeter rate;
};

}  // namespace baton
