#include "common/engine/sequence_ending.h"

#include <utility>
#include <variant>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/engine/finish_reason.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

void SetChoice(SequenceEvent& last, int choice) {
  if (auto* finished = std::get_if<SequenceFinished>(&last)) finished->choice = choice;
  if (auto* failed = std::get_if<SequenceFailed>(&last)) failed->choice = choice;
  if (auto* released = std::get_if<SequenceReleased>(&last)) released->timings.choice = choice;
}

SequenceFinished TimingsUntil(absl::Time now, const Sequence& sequence) {
  const SequenceTimes& times = sequence.times;
  const absl::Time first_step = times.first_step.value_or(now);
  return {
      .queue = first_step - times.ready,
      .prefill = times.prefill_end.value_or(first_step) - first_step,
      .decode = now - times.first_decode.value_or(now),
      .preemptions = sequence.preemptions,
      .choice = sequence.choice(),
  };
}

}  // namespace

SequenceEnding::SequenceEnding(Rules rules, SequenceTable& sequences, BlockLedger& ledger,
                               Mailbox& mailbox)
    : rules_(std::move(rules)), sequences_(sequences), ledger_(ledger), mailbox_(mailbox) {}

FinishReason SequenceEnding::ReasonOf(const Sequence& sequence, const OutputToken& token) const {
  return FinishReasonOf(token, sequence.request.sampling, rules_.end_of_generation_ids,
                        sequence.tokens.form.has_value(),
                        sequence.request.prompt_length + token.output_index + 1,
                        rules_.max_model_len);
}

void SequenceEnding::Finish(Sequence& sequence) {
  BATON_FAILPOINT("engine.before_finish");
  const SequenceFinished finished = TimingsUntil(SteadyNow(), sequence);
  if (sequence.request.mode != Mode::kPrefillOnly) return RemoveAndTell(sequence, finished);
  sequences_.Hold(sequence);
  Tell(sequence, finished);
}

void SequenceEnding::Fail(Sequence& sequence, absl::Status status) {
  ledger_.ForgetBlocks(sequence);
  const SequenceFailed failed = {std::move(status), sequence.choice()};
  if (sequence.request.mode != Mode::kPrefillOnly) return RemoveAndTell(sequence, failed);
  sequences_.Hold(sequence);
  Tell(sequence, failed);
}

void SequenceEnding::Release(Sequence& sequence) {
  RemoveAndTell(sequence, SequenceReleased{TimingsUntil(SteadyNow(), sequence)});
}

void SequenceEnding::ReleaseChoice(Sequence& sequence, int choice) {
  sequences_.DropChoice(sequence, choice);
  SequenceReleased released = {TimingsUntil(SteadyNow(), sequence)};
  released.timings.choice = choice;
  Tell(sequence, released);
}

void SequenceEnding::RemoveAndTell(Sequence& sequence, SequenceEvent last) {
  const SequenceId id = sequence.id;
  const auto on_event = std::move(sequence.request.on_event);
  std::vector<int> choices = sequence.choices;
  if (sequence.request.mode == Mode::kPrefillOnly) choices.resize(1);
  BATON_FAILPOINT("engine.before_release");
  sequences_.Remove(sequence);
  if (sequences_.Find(id) == nullptr) mailbox_.Ended(id);
  if (!on_event) return;
  for (const int choice : choices) {
    SetChoice(last, choice);
    on_event(last);
  }
}

}  // namespace baton
