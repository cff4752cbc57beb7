#include "common/engine/guesser.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

// Whether a sequence that is in a step decodes there and stays one.
bool Decodes(const ScheduledTokens& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  return sequence.request.mode != Mode::kPrefillOnly && scheduled.token_count == 1 &&
         scheduled.first_token >= sequence.kv.prefill_tokens && !sequence.forks();
}

GuessOdds OddsOf(const SequenceGuesses& guesses) {
  return {.acceptance = guesses.acceptance.rate(),
          .forced = guesses.forced,
          .forced_acceptance = guesses.forced_acceptance.rate()};
}

bool BeginsWith(const std::vector<int32_t>& tokens, const std::vector<int32_t>& begin) {
  return tokens.size() >= begin.size() && std::equal(begin.begin(), begin.end(), tokens.begin());
}

}  // namespace

Guesser::Guesser(Options options, BlockLedger& ledger)
    : options_(std::move(options)), ledger_(ledger) {}

SpeculationMode Guesser::ModeOf(const Sequence& sequence) const {
  if (options_.mode == SpeculationMode::kNone) return SpeculationMode::kNone;
  return sequence.request.speculation.value_or(options_.mode);
}

// How many of at most `most` tokens to guess for a sequence of the step.
int Guesser::LengthFor(const Sequence& sequence, int most) const {
  if (most <= 0) return 0;
  if (ModeOf(sequence) == SpeculationMode::kNgram) return most;
  return BestGuessLength(
      {.fixed_rows = costs_.fixed_rows(), .rows = step_rows_, .other_tokens = step_tokens_ - 1},
      OddsOf(sequence.guesses), most);
}

void Guesser::AddTo(Schedule& schedule, int row_budget) {
  if (options_.mode == SpeculationMode::kNone) return;
  int samples = 0;
  step_rows_ = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    step_rows_ += scheduled.token_count;
    if (scheduled.produces_token) samples += static_cast<int>(scheduled.sequence->choices.size());
  }
  step_tokens_ = samples;
  int room = std::min(row_budget - step_rows_, options_.most_samples - samples);
  for (ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    if (!Decodes(scheduled) || sequence.tokens.pending_outputs > 0) continue;
    SequenceGuesses& guesses = sequence.guesses;
    // The step makes one token more than it has guesses.
    const int most = std::min({room, static_cast<int>(guesses.next.size()),
                               sequence.tokens.most - sequence.tokens.count() - 1});
    int length = LengthFor(sequence, most);
    if (length > 0 && sequence.tokens.grammar) {
      length = static_cast<int>(sequence.tokens.grammar->CountAllowed(
          absl::MakeConstSpan(guesses.next).first(static_cast<size_t>(length))));
    }
    if (length > 0) length = ledger_.TakeAhead(sequence, length);
    if (length == 0) continue;
    scheduled.guesses.assign(guesses.next.begin(), guesses.next.begin() + length);
    guesses.in_flight = true;
    room -= length;
    step_rows_ += length;
    step_tokens_ += ExpectedTokens(OddsOf(guesses), length) - 1;
  }
}

void Guesser::StepDone(const Schedule& schedule, absl::Duration duration) {
  int rows = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    if (!Decodes(scheduled)) return;
    rows += scheduled.row_count();
  }
  costs_.Observe(rows, duration);
}

void Guesser::Checked(const ScheduledTokens& scheduled, int accepted, const OutputToken& first) {
  SequenceGuesses& guesses = scheduled.sequence->guesses;
  const int guessed = scheduled.guess_count();
  guesses.in_flight = false;
  guesses.accepted += accepted;
  guesses.refused += guessed - accepted;
  if (guesses.next.empty()) return;
  // The forced ones say nothing about the others.
  if (guessed == 0) {
    const bool would_have_been_accepted = guesses.next.front() == first.token_id;
    (guesses.forced > 0 ? guesses.forced_acceptance : guesses.acceptance)
        .Observe(would_have_been_accepted ? 1 : 0, !would_have_been_accepted);
    return;
  }
  const int forced = std::min(guessed, guesses.forced);
  guesses.forced_acceptance.Observe(std::min(accepted, forced), accepted < forced);
  if (accepted >= forced) guesses.acceptance.Observe(accepted - forced, accepted < guessed);
}

void Guesser::Continue(Sequence& sequence) {
  ledger_.SettleAhead(sequence);
  if (ModeOf(sequence) == SpeculationMode::kNone) return;
  Propose(sequence);
  // The first guess is of the output that may be pending.
  SequenceGuesses& guesses = sequence.guesses;
  guesses.awaited = LengthFor(sequence, static_cast<int>(guesses.next.size()) - 1) > 0;
}

void Guesser::Propose(Sequence& sequence) const {
  SequenceGuesses& guesses = sequence.guesses;
  if (guesses.proposer == nullptr) guesses.proposer = options_.make_proposer();
  guesses.next = guesses.proposer->Propose(sequence.tokens.ids, kMostGuesses);
  if (!sequence.tokens.grammar) return;
  std::vector<int32_t> forced = sequence.tokens.grammar->ForcedTokens(kMostGuesses);
  guesses.forced = static_cast<int>(forced.size());
  if (!BeginsWith(guesses.next, forced)) guesses.next = std::move(forced);
}

}  // namespace baton
