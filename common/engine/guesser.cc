#include "common/engine/guesser.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

constexpr double kKeptOfDraft = 0.9;  // weight that the drafts' time keeps when another is known

// Whether a sequence that is in a step decodes there and stays one.
bool Decodes(const ScheduledTokens& scheduled) {
  const Sequence& sequence = *scheduled.sequence;
  return sequence.request.mode != Mode::kPrefillOnly && scheduled.token_count == 1 &&
         scheduled.first_token >= sequence.kv.prefill_tokens && !sequence.forks();
}

GuessOdds OddsOf(const SequenceGuesses& guesses) {
  const Acceptance& acceptance = guesses.drafted ? guesses.draft_acceptance : guesses.acceptance;
  return {.acceptance = acceptance.rate(),
          .forced = guesses.forced,
          .forced_acceptance = guesses.forced_acceptance.rate()};
}

bool HasSlowForm(const Sequence& sequence) {
  return sequence.tokens.form && sequence.tokens.form->is_slow();
}

// Whether a step shows what follows the sequence's last token, which is known. A slow form has only
// the mask of the next output.
bool MayBeGuessedFor(const ScheduledTokens& scheduled) {
  return Decodes(scheduled) && scheduled.sequence->tokens.pending_outputs == 0 &&
         !HasSlowForm(*scheduled.sequence);
}

// Whether one step's rows are enough for the draft model to catch up with the sequence.
bool IsNearlyKnown(const Sequence& sequence) {
  return sequence.guesses.draft_kv.tokens.size() + kChunkTokens >= sequence.tokens.ids.size();
}

// Whether a sequence has its blocks, is not asked for in this step, and will be.
bool WillBeDrafted(const Sequence& sequence) {
  using State = Sequence::State;
  if (sequence.request.mode == Mode::kPrefillOnly || sequence.paused) return false;
  if (sequence.state() != State::kRunning) {
    // tests/planted_bugs: draft_waits_for_the_commit
    return sequence.state() == State::kReserved || sequence.state() == State::kReceiving;
  }
  if (sequence.uncomputed_tokens() > 1) return true;
  // It is not asked for before it has no pending output, and it waits for that once it is known.
  return sequence.tokens.pending_outputs > 0 && sequence.guesses.next.empty() &&
         !IsNearlyKnown(sequence);
}

// The most guesses of which each may become a token. The step makes one token more than it has
// guesses.
int MostUseful(const Sequence& sequence) {
  // tests/planted_bugs: guess_passes_the_length
  return sequence.tokens.most - sequence.tokens.count() - 1;
}

void Forget(Sequence& sequence) {
  SequenceGuesses& guesses = sequence.guesses;
  guesses.next.clear();
  guesses.forced = 0;
  guesses.in_flight = false;
  guesses.awaited = false;
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

// Returns the number of tokens, up to `most`, to guess for a sequence of the step.
int Guesser::LengthFor(const Sequence& sequence, int most) const {
  if (most <= 0) return 0;
  if (ModeOf(sequence) != SpeculationMode::kAuto) return most;
  return BestGuessLength(
      {.fixed_rows = costs_.fixed_rows(), .rows = step_rows_, .other_tokens = step_tokens_ - 1},
      OddsOf(sequence.guesses), most);
}

// Returns the number of tokens to request from the draft model for a sequence of the step.
int Guesser::DraftLengthFor(const Sequence& sequence) const {
  if (options_.draft == nullptr) return 0;
  if (ModeOf(sequence) == SpeculationMode::kDraft) return kMostGuesses;
  if (ModeOf(sequence) != SpeculationMode::kAuto) return 0;
  const absl::Duration row_time = costs_.row_time();
  const double draft_rows =
      row_time > absl::ZeroDuration() ? absl::FDivDuration(draft_time_, row_time) : 0;
  return BestGuessLength({.fixed_rows = costs_.fixed_rows(),
                          .rows = std::max(1, step_rows_),
                          .other_tokens = std::max(0.0, step_tokens_ - 1),
                          .guess_rows = 1 + draft_rows},
                         {.acceptance = sequence.guesses.draft_acceptance.rate()}, kMostGuesses);
}

// Returns how many guesses the step has room for.
int Guesser::CountRoom(const Schedule& schedule, int row_budget) {
  int samples = 0;
  step_rows_ = 0;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    step_rows_ += scheduled.token_count;
    if (scheduled.produces_token) samples += static_cast<int>(scheduled.sequence->choices.size());
  }
  step_tokens_ = samples;
  // tests/planted_bugs: guess_takes_rows_of_others
  spare_rows_ = std::max(0, row_budget - step_rows_);
  return std::min(spare_rows_, options_.most_samples - samples);
}

// Asks the draft model for guesses of those that have no others.
void Guesser::Draft(const Schedule& schedule, int room) {
  std::vector<Sequence*> sequences;
  std::vector<DraftModel::Order> orders;
  for (const ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    if (!MayBeGuessedFor(scheduled) || !sequence.guesses.next.empty()) continue;
    const int length = std::min({DraftLengthFor(sequence), room, MostUseful(sequence)});
    if (length <= 0) continue;
    room -= length;
    sequences.push_back(&sequence);
    orders.push_back(
        {.kv = &sequence.guesses.draft_kv, .tokens = sequence.tokens.ids, .most = length});
  }
  if (orders.empty()) return;
  const absl::Time start = SteadyNow();
  const int rows = options_.draft->Propose(absl::MakeSpan(orders), spare_rows_);
  const absl::Duration duration = SteadyNow() - start;
  spare_rows_ = std::max(0, spare_rows_ - rows);
  int guesses = 0;
  for (size_t i = 0; i < orders.size(); ++i) {
    SequenceGuesses& of_sequence = sequences[i]->guesses;
    guesses += static_cast<int>(orders[i].proposed.size());
    of_sequence.next = std::move(orders[i].proposed);
    of_sequence.drafted = true;
  }
  // The time of rows that catch up says little about a guess.
  if (guesses == 0 || rows > 2 * guesses + static_cast<int>(orders.size())) return;
  const absl::Duration of_guess = duration / guesses;
  draft_time_ = draft_time_ == absl::ZeroDuration()
                    ? of_guess
                    : kKeptOfDraft * draft_time_ + (1 - kKeptOfDraft) * of_guess;
}

bool Guesser::CatchUp(absl::Span<Sequence* const> sequences) {
  if (options_.draft == nullptr) return false;
  std::vector<DraftModel::Order> orders;
  for (Sequence* sequence : sequences) {
    DraftKv& kv = sequence->guesses.draft_kv;
    const std::vector<int32_t>& tokens = sequence->tokens.ids;
    if (!WillBeDrafted(*sequence) || kv.tokens.size() >= tokens.size()) continue;
    if (DraftLengthFor(*sequence) > 0) orders.push_back({.kv = &kv, .tokens = tokens});
  }
  return options_.draft->Propose(absl::MakeSpan(orders), spare_rows_) > 0;
}

void Guesser::AddTo(Schedule& schedule, int row_budget) {
  if (options_.mode == SpeculationMode::kNone) return;
  int room = CountRoom(schedule, row_budget);
  if (options_.draft != nullptr) Draft(schedule, room);
  for (ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    if (!MayBeGuessedFor(scheduled)) continue;
    SequenceGuesses& guesses = sequence.guesses;
    const int most = std::min({room, static_cast<int>(guesses.next.size()), MostUseful(sequence)});
    int length = LengthFor(sequence, most);
    if (length > 0 && sequence.tokens.form) {
      length = static_cast<int>(sequence.tokens.form->state.CountAllowed(
          absl::MakeConstSpan(guesses.next).first(static_cast<size_t>(length))));
    }
    if (length > 0) length = ledger_.TakeAhead(sequence, length);
    if (length == 0) continue;
    scheduled.guesses.assign(guesses.next.begin(), guesses.next.begin() + length);
    guesses.in_flight = true;
    room -= length;
    spare_rows_ -= length;
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
  if (guesses.next.empty()) return guesses.draft_acceptance.Fade();
  Acceptance& acceptance = guesses.drafted ? guesses.draft_acceptance : guesses.acceptance;
  // The forced ones say nothing about the others.
  if (guessed == 0) {
    const bool would_have_been_accepted = guesses.next.front() == first.token_id;
    (guesses.forced > 0 ? guesses.forced_acceptance : acceptance)
        .Observe(would_have_been_accepted ? 1 : 0, !would_have_been_accepted);
    return;
  }
  const int forced = std::min(guessed, guesses.forced);
  guesses.forced_acceptance.Observe(std::min(accepted, forced), accepted < forced);
  if (accepted >= forced) acceptance.Observe(accepted - forced, accepted < guessed);
}

void Guesser::Continue(Sequence& sequence) {
  ledger_.SettleAhead(sequence);
  if (ModeOf(sequence) == SpeculationMode::kNone) return;
  if (HasSlowForm(sequence)) return Forget(sequence);
  Propose(sequence);
  SequenceGuesses& guesses = sequence.guesses;
  if (guesses.next.empty()) {
    // The draft model would have to know the output that may be pending.
    guesses.awaited = IsNearlyKnown(sequence) && DraftLengthFor(sequence) > 0;
    return;
  }
  // The first guess is of the output that may be pending.
  guesses.awaited = LengthFor(sequence, static_cast<int>(guesses.next.size()) - 1) > 0;
}

void Guesser::Missed(Sequence& sequence) {
  ledger_.SettleAhead(sequence);
  Forget(sequence);
}

void Guesser::Propose(Sequence& sequence) const {
  SequenceGuesses& guesses = sequence.guesses;
  guesses.drafted = false;
  guesses.next.clear();
  if (ModeOf(sequence) != SpeculationMode::kDraft) {
    if (guesses.proposer == nullptr) guesses.proposer = options_.make_proposer();
    guesses.next = guesses.proposer->Propose(sequence.tokens.ids, kMostGuesses);
  }
  if (!sequence.tokens.form) return;
  std::vector<int32_t> forced = sequence.tokens.form->state.ForcedTokens(kMostGuesses);
  guesses.forced = static_cast<int>(forced.size());
  if (!BeginsWith(guesses.next, forced)) guesses.next = std::move(forced);
}

}  // namespace baton
