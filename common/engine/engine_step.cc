#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/engine/engine_rep.h"
#include "common/engine/finish_reason.h"

namespace baton {

using Mode = SequenceRequest::Mode;

namespace {

// A peer hears of each layer of a chunk as it is computed, then of the chunk, then of the next
// one's layers: such a step is neither replayed nor left behind.
bool TellsLayers(const Schedule& schedule) {
  return std::any_of(schedule.batch.begin(), schedule.batch.end(),
                     [](const ScheduledTokens& scheduled) {
                       return scheduled.sequence->request.mode == Mode::kPrefillOnly;
                     });
}

}  // namespace

bool Engine::Step() {
  rep_->TakeCommands();
  // Who is preempted gives blocks that others get at once.
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
    ++totals.preemptions;
    Tell(*sequence, SequencePreempted{});
  }
  for (const Sequence* sequence : schedule.admitted) {
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
    if (!decodes) Tell(sequence, PrefillStarted{.cached_tokens = sequence.cached_tokens});
  }
}

void Engine::Rep::Enqueue(Schedule schedule) {
  Batch batch;
  std::vector<SamplingRow> sampled;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    batch.sequences.push_back({.first_row = batch.rows(),
                               .row_count = scheduled.token_count,
                               .first_position = scheduled.first_token,
                               .block_table = sequence.block_table});
    const bool pending = sequence.pending_outputs > 0;
    const auto first = sequence.token_ids.begin() + scheduled.first_token;
    batch.token_ids.insert(batch.token_ids.end(), first,
                           first + scheduled.token_count - sequence.pending_outputs);
    if (pending) batch.token_ids.push_back(~sequence.pending_choice);
    if (!scheduled.produces_token) continue;
    const int choice = static_cast<int>(sampled.size());
    sampled.push_back({.sequence = sequence.id,
                       .sampling = &sequence.request.sampling,
                       .counts = &sequence.counts,
                       .choice = sequence.request.choice,
                       .output_index = sequence.output_count(),
                       .pending = pending ? sequence.pending_choice : -1});
    sequence.pending_choice = choice;
    batch.logits_rows.push_back(batch.rows() - 1);
  }
  const int rows = batch.rows();
  const absl::Time start = SteadyNow();
  sampler->Begin(sampled);
  batch.choices = sampler->choices();
  model->Enqueue(
      batch, *cache, TellsLayers(schedule) ? nullptr : recordings.get(),
      [&](int layer) { LayerDone(schedule, layer); },
      [&](int first_row, Tensor logits) { sampler->Sample(first_row, logits); });
  sampler->End();
  scheduler.StepEnqueued(schedule);
  in_flight.push_back({.schedule = std::move(schedule), .rows = rows, .enqueued = start});
}

void Engine::Rep::ApplyUntil(size_t count) {
  while (in_flight.size() > count) {
    const Step step = std::move(in_flight.front());
    in_flight.pop_front();
    std::vector<absl::StatusOr<OutputToken>> tokens = sampler->Take();
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
  size_t next_token = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    absl::StatusOr<OutputToken>* const token =
        scheduled.produces_token ? &tokens[next_token++] : nullptr;
    // It ended with the step before: what this one has computed for it is nothing to anybody.
    if (sequence.state == Sequence::State::kEnded) continue;
    scheduler.MarkComputed(sequence, scheduled.end_token());
    if (scheduled.first_token < sequence.prefill_tokens) {
      totals.prompt_tokens_computed += static_cast<uint64_t>(scheduled.token_count);
      if (scheduled.first_token == sequence.cached_tokens) {
        totals.prompt_tokens_cached += static_cast<uint64_t>(sequence.cached_tokens);
      }
      if (!sequence.prefill_end && !sequence.committed) {
        if (token != nullptr) sequence.prefill_end = SteadyNow();
        Tell(sequence, ChunkComputed{.end_token = scheduled.end_token()});
      }
    }
    if (token != nullptr) Produce(sequence, std::move(*token));
  }
}

void Engine::Rep::Produce(Sequence& sequence, absl::StatusOr<OutputToken> token) {
  if (!token.ok()) return Fail(sequence, token.status());
  token->finish_reason = FinishReasonOf(sequence, *token);
  ++totals.generated_tokens;
  const bool ends = token->finish_reason != FinishReason::kNone;
  if (sequence.request.mode != Mode::kPrefillOnly) scheduler.AddOutput(sequence, token->token_id);
  Tell(sequence, TokenProduced{*std::move(token)});
  if (ends || sequence.request.mode == Mode::kPrefillOnly) Finish(sequence);
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
  };
}

void Engine::Rep::Finish(Sequence& sequence) {
  const SequenceFinished finished = TimingsUntil(SteadyNow(), sequence);
  if (sequence.request.mode == Mode::kPrefillOnly) {
    scheduler.Hold(sequence);
    return Tell(sequence, finished);
  }
  const auto on_event = std::move(sequence.request.on_event);
  mailbox.Ended(sequence.id);
  scheduler.Remove(sequence);
  if (on_event) on_event(finished);
}

void Engine::Rep::Fail(Sequence& sequence, absl::Status status) {
  scheduler.ForgetBlocks(sequence);
  const SequenceFailed failed = {std::move(status)};
  if (sequence.request.mode == Mode::kPrefillOnly) {
    scheduler.Hold(sequence);
    return Tell(sequence, failed);
  }
  const auto on_event = std::move(sequence.request.on_event);
  mailbox.Ended(sequence.id);
  scheduler.Remove(sequence);
  if (on_event) on_event(failed);
}

}  // namespace baton
