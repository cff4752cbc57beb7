#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/max_choices.h"
#include "common/engine/engine_rep.h"
#include "common/engine/finish_reason.h"

namespace baton {

using Mode = SequenceRequest::Mode;

namespace {

// Whether a peer hears of the step's layers. It hears of each layer of a chunk as it is computed,
// then of the chunk, then of the next chunk's layers. So such a step is not replayed from a
// recording, and its results are applied before the next step.
bool TellsLayers(const Schedule& schedule) {
  return std::any_of(schedule.batch.begin(), schedule.batch.end(),
                     [](const ScheduledTokens& scheduled) {
                       return scheduled.sequence->request.mode == Mode::kPrefillOnly;
                     });
}

bool MakesChoicesPart(const Schedule& schedule) {
  return std::any_of(schedule.batch.begin(), schedule.batch.end(),
                     [](const ScheduledTokens& scheduled) {
                       return scheduled.produces_token && scheduled.sequence->forks();
                     });
}

// The name of one choice towards the sampler, which keeps token counts for it.
uint64_t SampledSequence(const Sequence& sequence, int choice) {
  return sequence.id * kMaxChoices + static_cast<uint64_t>(choice);
}

void SetChoice(SequenceEvent& last, int choice) {
  if (auto* finished = std::get_if<SequenceFinished>(&last)) finished->choice = choice;
  if (auto* failed = std::get_if<SequenceFailed>(&last)) failed->choice = choice;
  if (auto* released = std::get_if<SequenceReleased>(&last)) released->timings.choice = choice;
}

// How many of the step's sampled tokens belong to it.
size_t TokensOf(const ScheduledTokens& scheduled) {
  if (!scheduled.produces_token) return 0;
  const bool stays_one = scheduled.sequence->request.mode == Mode::kPrefillOnly;
  return stays_one ? scheduled.sequence->choices.size() : 1 + scheduled.parted.size();
}

}  // namespace

bool Engine::Step() {
  rep_->TakeCommands();
  // A preempted sequence gives its blocks to others at once, so no step in flight may use them.
  if (!rep_->in_flight.empty() && rep_->scheduler.MayPreempt()) rep_->ApplyUntil(0);
  Schedule schedule = rep_->scheduler.Next(rep_->sizer.rows());
  rep_->Announce(schedule);
  rep_->PublishStats();
  const bool computes = !schedule.batch.empty();
  if (!computes && rep_->in_flight.empty()) return !schedule.preempted.empty();
  const int ahead = computes && !TellsLayers(schedule) ? *rep_->options.steps_ahead : 0;
  if (computes) rep_->Enqueue(std::move(schedule));
  rep_->ApplyUntil(static_cast<size_t>(ahead));
  rep_->PublishStats();
  return true;
}

void Engine::Rep::Announce(const Schedule& schedule) {
  for (const Sequence* sequence : schedule.preempted) {
    BATON_FAILPOINT("engine.preempted");
    ++totals.preemptions;
    Tell(*sequence, SequencePreempted{.choice = sequence->choice()});
  }
  for (const Sequence* sequence : schedule.admitted) {
    BATON_FAILPOINT("engine.admitted");
    mailbox.Admitted();
    Tell(*sequence, SequenceAdmitted{.cached_tokens = sequence->cached_tokens});
  }
  const absl::Time now = SteadyNow();
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const bool decodes = scheduled.first_token >= sequence.prefill_tokens;
    if (decodes && !sequence.first_decode) sequence.first_decode = now;
    if (sequence.first_step) continue;
    sequence.first_step = now;
    if (!decodes && !sequence.committed)
      Tell(sequence, PrefillStarted{.cached_tokens = sequence.cached_tokens});
  }
}

void Engine::Rep::Enqueue(Schedule schedule) {
  BATON_FAILPOINT("engine.before_step");
  Batch batch;
  std::vector<SamplingRow> sampled;
  std::vector<int> first_samples;  // [logits rows + 1]
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    batch.sequences.push_back({.first_row = batch.rows(),
                               .row_count = scheduled.token_count,
                               .first_position = scheduled.first_token,
                               .block_table = sequence.block_table.data(),
                               .block_count = cache->layout().BlocksFor(scheduled.end_token())});
    const bool pending = sequence.pending_outputs > 0;
    const auto first = sequence.token_ids.begin() + scheduled.first_token;
    std::transform(first, first + scheduled.token_count - sequence.pending_outputs,
                   std::back_inserter(batch.tokens), InputToken::Id);
    if (pending) batch.tokens.push_back(InputToken::PendingRow(sequence.pending_row));
    if (!scheduled.produces_token) continue;
    first_samples.push_back(static_cast<int>(sampled.size()));
    for (const int choice : sequence.choices) {
      sampled.push_back({.sequence = SampledSequence(sequence, choice),
                         .sampling = &sequence.request.sampling,
                         .counts = &sequence.counts,
                         .choice = choice,
                         .output_index = sequence.output_count(),
                         .pending_row = pending ? sequence.pending_row : -1});
    }
    sequence.pending_row = first_samples.back();
    batch.logits_rows.push_back(batch.rows() - 1);
  }
  first_samples.push_back(static_cast<int>(sampled.size()));
  const int rows = batch.rows();
  const absl::Time start = SteadyNow();
  for (const BlockCopy& copy : schedule.copies) cache->CopyBlock(copy.from, copy.to);
  sampler->Begin(sampled);
  batch.sampled_ids = sampler->sampled_ids();
  const bool replayable = !TellsLayers(schedule) && !MakesChoicesPart(schedule);
  model->Enqueue(
      batch, *cache, replayable ? recordings.get() : nullptr,
      [&](int layer) { LayerDone(schedule, layer); },
      [&](int first_row, Tensor logits) { Sample(first_samples, first_row, logits); });
  sampler->End();
  scheduler.StepEnqueued(schedule);
  for (const ScheduledTokens& scheduled : schedule.batch) {
    for (size_t i = 0; i < scheduled.parted.size(); ++i) {
      scheduled.parted[i]->pending_row = scheduled.sequence->pending_row + static_cast<int>(i) + 1;
    }
  }
  in_flight.push_back({.schedule = std::move(schedule), .rows = rows, .enqueued = start});
}

// Consecutive rows with one sample each are sampled together, and so are the padding rows behind
// them. Choices that part take their samples from one row, one after the other.
void Engine::Rep::Sample(absl::Span<const int> first_samples, int first_row, Tensor logits) {
  const auto sample_of = [&](int row) {
    const auto index = static_cast<size_t>(first_row + row);
    const size_t last = first_samples.size() - 1;
    return index <= last ? first_samples[index]
                         : first_samples[last] + static_cast<int>(index - last);
  };
  for (int row = 0; row < logits.rows;) {
    int end = row + 1;
    const int samples = sample_of(end) - sample_of(row);
    if (samples == 1) {
      while (end < logits.rows && sample_of(end + 1) - sample_of(end) == 1) ++end;
    }
    const Tensor rows = {logits.Row(row), end - row, logits.columns};
    for (int i = 0; i < samples; ++i) sampler->Sample(sample_of(row) + i, rows);
    row = end;
  }
}

void Engine::Rep::ApplyUntil(size_t count) {
  while (in_flight.size() > count) {
    const Step step = std::move(in_flight.front());
    in_flight.pop_front();
    std::vector<absl::StatusOr<OutputToken>> tokens = sampler->Take();
    BATON_FAILPOINT("engine.step_done");
    const absl::Time now = SteadyNow();
    sizer.Observe(step.rows, now - std::max(step.enqueued, last_done));
    last_done = now;
    {
      const std::lock_guard lock(stats_mutex);
      rate.Add(now, step.rows);
    }
    const std::vector<Scheduler::Leaving> leaving = scheduler.StepDone();
    Apply(step.schedule, absl::MakeSpan(tokens));
  }
}

void Engine::Rep::Apply(const Schedule& schedule, absl::Span<absl::StatusOr<OutputToken>> tokens) {
  BATON_FAILPOINT("engine.before_token");
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    const auto made = tokens.subspan(0, TokensOf(scheduled));
    tokens.remove_prefix(made.size());
    // It ended with the step before, so nobody needs what this step computed for it.
    if (sequence.state == Sequence::State::kEnded) continue;
    ApplyComputed(scheduled);
    if (made.empty()) continue;
    if (sequence.request.mode == Mode::kPrefillOnly) {
      ProducePrefilled(sequence, made);
      continue;
    }
    for (Sequence* other : scheduled.parted) other->prefill_end = sequence.prefill_end;
    Produce(sequence, std::move(made[0]));
    for (size_t i = 0; i < scheduled.parted.size(); ++i) {
      Produce(*scheduled.parted[i], std::move(made[i + 1]));
    }
  }
}

void Engine::Rep::ApplyComputed(const ScheduledTokens& scheduled) {
  Sequence& sequence = *scheduled.sequence;
  scheduler.MarkComputed(sequence, scheduled.end_token());
  if (scheduled.first_token >= sequence.prefill_tokens) return;
  totals.prompt_tokens_computed += static_cast<uint64_t>(scheduled.token_count);
  if (scheduled.first_token == sequence.cached_tokens) {
    totals.prompt_tokens_cached += static_cast<uint64_t>(sequence.cached_tokens);
  }
  if (sequence.prefill_end || sequence.committed) return;
  if (scheduled.produces_token) sequence.prefill_end = SteadyNow();
  Tell(sequence, ChunkComputed{.end_token = scheduled.end_token()});
}

void Engine::Rep::Produce(Sequence& sequence, absl::StatusOr<OutputToken> token) {
  if (!token.ok()) return Fail(sequence, token.status());
  token->finish_reason = FinishReasonOf(sequence, *token);
  ++totals.generated_tokens;
  const bool ends = token->finish_reason != FinishReason::kNone;
  scheduler.AddOutput(sequence, token->token_id);
  Tell(sequence, TokenProduced{*std::move(token), sequence.choice()});
  if (ends) Finish(sequence);
}

void Engine::Rep::ProducePrefilled(Sequence& sequence,
                                   absl::Span<absl::StatusOr<OutputToken>> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    absl::StatusOr<OutputToken>& token = tokens[i];
    if (!token.ok()) return Fail(sequence, token.status());
    token->finish_reason = FinishReasonOf(sequence, *token);
    ++totals.generated_tokens;
    Tell(sequence, TokenProduced{*std::move(token), sequence.choices[i]});
  }
  Finish(sequence);
}

FinishReason Engine::Rep::FinishReasonOf(const Sequence& sequence, const OutputToken& token) const {
  return baton::FinishReasonOf(token, sequence.request.sampling, options.end_of_generation_ids,
                               sequence.request.prompt_length + token.output_index + 1,
                               options.max_model_len);
}

SequenceFinished Engine::Rep::TimingsUntil(absl::Time now, const Sequence& sequence) {
  const absl::Time first_step = sequence.first_step.value_or(now);
  return {
      .queue = first_step - sequence.ready,
      .prefill = sequence.prefill_end.value_or(first_step) - first_step,
      .decode = now - sequence.first_decode.value_or(now),
      .preemptions = sequence.preemptions,
      .choice = sequence.choice(),
  };
}

void Engine::Rep::RemoveAndTell(Sequence& sequence, SequenceEvent last) {
  const SequenceId id = sequence.id;
  const auto on_event = std::move(sequence.request.on_event);
  std::vector<int> choices = sequence.choices;
  if (sequence.request.mode == Mode::kPrefillOnly) choices.resize(1);
  BATON_FAILPOINT("engine.before_release");
  scheduler.Remove(sequence);
  if (scheduler.Find(id) == nullptr) mailbox.Ended(id);
  if (!on_event) return;
  for (const int choice : choices) {
    SetChoice(last, choice);
    on_event(last);
  }
}

void Engine::Rep::Finish(Sequence& sequence) {
  BATON_FAILPOINT("engine.before_finish");
  const SequenceFinished finished = TimingsUntil(SteadyNow(), sequence);
  if (sequence.request.mode != Mode::kPrefillOnly) return RemoveAndTell(sequence, finished);
  scheduler.Hold(sequence);
  Tell(sequence, finished);
}

void Engine::Rep::Fail(Sequence& sequence, absl::Status status) {
  scheduler.ForgetBlocks(sequence);
  const SequenceFailed failed = {std::move(status), sequence.choice()};
  if (sequence.request.mode != Mode::kPrefillOnly) return RemoveAndTell(sequence, failed);
  scheduler.Hold(sequence);
  Tell(sequence, failed);
}

}  // namespace baton
