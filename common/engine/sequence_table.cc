#include "common/engine/sequence_table.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;

SequenceTable::SequenceTable(int max_model_len, BlockLedger& ledger, StepsInFlight& steps)
    : max_model_len_(max_model_len), ledger_(ledger), steps_(steps) {}

Sequence& SequenceTable::Add(SequenceId id, CheckedSequence checked) {
  auto sequence =
      std::make_unique<Sequence>(id, next_arrival_, std::move(checked).Take(), max_model_len_);
  next_arrival_ += sequence->choices.size();
  std::vector<std::unique_ptr<Sequence>>& choices = sequences_[id];
  BATON_CHECK(choices.empty(), "a sequence id is used twice");
  Sequence& newest = *choices.emplace_back(std::move(sequence));
  waiting_.insert(&newest);
  return newest;
}

Sequence* SequenceTable::Find(SequenceId id) {
  const auto entry = sequences_.find(id);
  return entry == sequences_.end() ? nullptr : entry->second.front().get();
}

std::vector<Sequence*> SequenceTable::All() {
  std::vector<Sequence*> all;
  for (const auto& [id, choices] : sequences_) {
    for (const auto& sequence : choices) all.push_back(sequence.get());
  }
  return all;
}

std::vector<Sequence*> SequenceTable::Choices(SequenceId id) {
  std::vector<Sequence*> choices;
  const auto entry = sequences_.find(id);
  if (entry == sequences_.end()) return choices;
  for (const auto& sequence : entry->second) choices.push_back(sequence.get());
  return choices;
}

void SequenceTable::DropChoice(Sequence& sequence, int choice) {
  BATON_CHECK(sequence.forks(), "the last choice ends with its sequence");
  const int before = ledger_.BlocksToStart(sequence);
  const auto dropped = std::find(sequence.choices.begin(), sequence.choices.end(), choice);
  BATON_CHECK(dropped != sequence.choices.end(), "a choice of the sequence");
  sequence.choices.erase(dropped);
  ledger_.GiveUpSince(sequence, before);
}

// The lines are those of the states.
void SequenceTable::Enter(Sequence& sequence, State next) {
  waiting_.erase(&sequence);
  running_.erase(&sequence);
  sequence.Enter(next);
  if (next == State::kWaiting) waiting_.insert(&sequence);
  if (next == State::kRunning) running_.insert(&sequence);
}

bool SequenceTable::Admit(Sequence& sequence) {
  Enter(sequence, sequence.awaits_kv() ? State::kReserved : State::kRunning);
  if (!sequence.awaits_kv()) sequence.kv.prefill_tokens = sequence.tokens.count();
  return !std::exchange(sequence.admitted, true);
}

void SequenceTable::Preempt(Sequence& sequence) {
  BATON_CHECK(!InFlight(sequence) && sequence.tokens.pending_outputs == 0, "no step has it");
  ledger_.GiveBack(sequence);
  ++sequence.preemptions;
  Enter(sequence, State::kWaiting);
}

void SequenceTable::OpenReceive(Sequence& sequence, std::string kv_numerics) {
  BATON_CHECK(sequence.state() == State::kReserved, "OpenReceive without a reservation");
  ledger_.Open(sequence, std::move(kv_numerics));
  Enter(sequence, State::kReceiving);
}

std::vector<Sequence*> SequenceTable::Commit(Sequence& sequence,
                                             absl::Span<const int32_t> first_tokens) {
  BATON_CHECK(sequence.state() == State::kReceiving, "Commit before blocks were granted");
  BATON_CHECK(first_tokens.size() == sequence.choices.size(), "a first token for each choice");
  sequence.kv.computed_tokens = sequence.tokens.count();
  ledger_.Commit(sequence);
  sequence.kv.committed = true;
  sequence.kv.prefill_tokens = sequence.tokens.count();
  Enter(sequence, State::kRunning);
  std::vector<Sequence*> choices = Part(sequence);
  choices.insert(choices.begin(), &sequence);
  for (size_t i = 0; i < choices.size(); ++i) {
    BATON_CHECK(choices[i]->tokens.AddOutput(first_tokens[i]).ok(), "a token that may come first");
  }
  return choices;
}

void SequenceTable::MarkComputed(Sequence& sequence, int end_token) {
  sequence.kv.computed_tokens = std::max(sequence.kv.computed_tokens, end_token);
  ledger_.Computed(sequence, end_token);
}

void SequenceTable::Hold(Sequence& sequence) { Enter(sequence, State::kHeld); }

void SequenceTable::Remove(Sequence& sequence) {
  const auto entry = sequences_.find(sequence.id);
  auto& choices = entry->second;
  const auto place = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto& choice) { return choice.get() == &sequence; });
  Enter(sequence, State::kEnded);
  std::unique_ptr<Sequence> removed = std::move(*place);
  choices.erase(place);
  if (choices.empty()) sequences_.erase(entry);
  if (!InFlight(sequence)) return;
  ledger_.GiveUpReservation(sequence);
  steps_.Keep({.last_step = sequence.last_step, .sequence = std::move(removed)});
}

void SequenceTable::StepEnqueued(Schedule& schedule) {
  const uint64_t step = steps_.Enqueued();
  for (ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    sequence.kv.computed_tokens = scheduled.end_token();
    sequence.last_step = step;
    ledger_.Copied(sequence, step);
    const bool decodes_here = sequence.request.mode != Mode::kPrefillOnly;
    if (!scheduled.produces_token || !decodes_here) continue;
    scheduled.parted = Part(sequence);
    ++sequence.tokens.pending_outputs;
    for (Sequence* other : scheduled.parted) ++other->tokens.pending_outputs;
  }
}

// Makes every further choice a sequence of its own and returns these. REQUIRES: the step that
// samples the first tokens is enqueued, or they were committed.
std::vector<Sequence*> SequenceTable::Part(Sequence& sequence) {
  std::vector<Sequence*> others;
  std::vector<std::unique_ptr<Sequence>>& choices = sequences_.at(sequence.id);
  for (size_t i = 1; i < sequence.choices.size(); ++i) {
    Sequence& other = *choices.emplace_back(sequence.Fork(sequence.choices[i]));
    ledger_.Share(sequence, other);
    running_.insert(&other);
    others.push_back(&other);
  }
  sequence.choices.resize(1);
  ledger_.SplitHeadRoom(sequence, others);
  return others;
}

}  // namespace baton
