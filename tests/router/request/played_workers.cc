#include "tests/router/request/played_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/protocol/worker_status.h"

namespace baton {

using internal::v1::OutputToken;

PlayedWorkers::Sequence PlayedWorkers::SequenceOf(const internal::v1::SequenceSpec& spec) {
  return {.first_choice = spec.key().choice(),
          .choices = spec.sampling().n(),
          .first_output = static_cast<uint32_t>(spec.token_ids_size()) - spec.prompt_length()};
}

void PlayedWorkers::ReadActions() {
  for (; read_ < harness_.actions.size(); ++read_) {
    const RequestAction& action = harness_.actions[read_];
    if (const auto* ask = std::get_if<ChooseWorkers>(&action)) {
      asks_.push_back(*ask);
    } else if (const auto* open = std::get_if<OpenDecode>(&action)) {
      Decode decode{.sequence = SequenceOf(open->start.start().sequence()),
                    .local = open->start.start().prefill_locally(),
                    .elsewhere = elsewhere_.count(open->attempt) > 0};
      for (uint32_t i = 0; i < decode.sequence.choices; ++i) {
        decode.sent[decode.sequence.first_choice + i] = decode.sequence.first_output;
      }
      EXPECT_TRUE(decodes_.emplace(open->attempt, decode).second) << "an attempt twice";
    } else if (const auto* start = std::get_if<StartPrefill>(&action)) {
      const Prefill prefill{.sequence = SequenceOf(start->request.sequence()),
                            .alone = start->request.decode_address().empty()};
      EXPECT_TRUE(prefills_.emplace(start->attempt, prefill).second) << "an attempt twice";
    } else if (const auto* send = std::get_if<SendToDecode>(&action)) {
      const auto decode = decodes_.find(send->attempt);
      if (decode != decodes_.end() && send->message.has_stop()) {
        decode->second.stopped.insert(send->message.stop().choice());
      }
    } else if (const auto* cancel = std::get_if<CancelDecode>(&action)) {
      decodes_.erase(cancel->attempt);
    } else if (const auto* close = std::get_if<CloseDecode>(&action)) {
      decodes_.erase(close->attempt);
    } else if (const auto* cancelled = std::get_if<CancelPrefill>(&action)) {
      prefills_.erase(cancelled->attempt);
    }
  }
}

void PlayedWorkers::Answer(const ChooseWorkers& ask) {
  const bool local = ask.needs.decode && Chance(4);
  WorkersChosen chosen = MachineHarness::Chosen(!local, ask.needs.decode);
  chosen.attempt = ask.attempt;
  if (ask.needs.beside != 0) {
    EXPECT_TRUE(ask.needs.decode);
    EXPECT_FALSE(ask.needs.avoid.empty());
    if (Chance(4)) return;  // never
    if (Chance(3)) return harness_.Feed(NoneElsewhere{ask.attempt});
    chosen.decode = WorkerName{4, "d2"};
    elsewhere_.insert(ask.attempt);
  }
  harness_.Feed(chosen);
}

bool PlayedWorkers::Turn() {
  ReadActions();
  if (!asks_.empty() && Chance(2)) {
    const ChooseWorkers ask = asks_.front();
    asks_.erase(asks_.begin());
    Answer(ask);
    return true;
  }
  const size_t calls = open_calls();
  if (calls == 0) return !asks_.empty();
  size_t which = random_() % calls;
  if (which < decodes_.size()) {
    const auto decode = std::next(decodes_.begin(), static_cast<std::ptrdiff_t>(which));
    GoOn(decode->first, decode->second);
  } else {
    which -= decodes_.size();
    const auto prefill = std::next(prefills_.begin(), static_cast<std::ptrdiff_t>(which));
    GoOn(prefill->first, prefill->second);
  }
  return true;
}

void PlayedWorkers::Kill() {
  ReadActions();
  if (open_calls() == 0) return;
  const absl::Status killed = absl::UnavailableError("killed");
  const bool after = harness_.machine.accepted_tokens() > 0;
  ++(after ? kills_after_tokens_ : kills_before_tokens_);
  size_t which = random_() % open_calls();
  if (which < decodes_.size()) {
    const uint32_t attempt = std::next(decodes_.begin(), static_cast<std::ptrdiff_t>(which))->first;
    decodes_.erase(attempt);
    harness_.Feed(DecodeEnded{attempt, killed});
  } else {
    which -= decodes_.size();
    const uint32_t attempt =
        std::next(prefills_.begin(), static_cast<std::ptrdiff_t>(which))->first;
    prefills_.erase(attempt);
    harness_.Feed(PrefillEnded{attempt, killed});
  }
}

bool PlayedWorkers::AllEndAtFirst(const Sequence& sequence) const {
  for (uint32_t i = 0; i < sequence.choices; ++i) {
    const Tokens& tokens = right_[sequence.first_choice + i];
    if (!tokens[sequence.first_output].ends_sequence()) return false;
  }
  return true;
}

void PlayedWorkers::GoOn(uint32_t attempt, Decode& decode) {
  DecodeMessage event{.attempt = attempt, .message = {}};
  if (!decode.accepted) {
    if (refuse_ && Chance(2)) {
      decodes_.erase(attempt);
      return harness_.Feed(DecodeEnded{attempt, WorkerFullStatus("full", "d", kStageQueue)});
    }
    if (!Chance(4)) return;
    decode.accepted = true;
    if (decode.elsewhere) {
      const bool after = decode.sequence.first_output > 0;
      ++(after ? moves_after_tokens_ : moves_before_tokens_);
    }
    event.message.mutable_accepted()->set_cached_tokens(0);
    return harness_.Feed(event);
  }
  if (!decode.local && !decode.committed) {
    const auto prefill = prefills_.find(attempt);
    // It can commit once the prefill worker has its first tokens, told to us or not.
    if (prefill == prefills_.end() || !prefill->second.started) return;
    if (AllEndAtFirst(decode.sequence)) {
      decodes_.erase(attempt);
      return harness_.Feed(DecodeEnded{attempt, absl::UnavailableError("the push was aborted")});
    }
    decode.committed = true;
    event.message.mutable_committed()->set_exact(true);
    return harness_.Feed(event);
  }
  if (decode.silent_turns > 0 && --decode.silent_turns > 0) return;
  if (decode.committed && Chance(10)) {
    decode.silent_turns = static_cast<int>(random_() % 60);
    event.message.mutable_preempted()->set_choice(decode.sequence.first_choice);
    return harness_.Feed(event);
  }
  // A step of all that run, or of some: their tokens, and the end of those that end.
  std::vector<uint32_t> ended;
  for (auto& [choice, next] : decode.sent) {
    if (decode.finished.count(choice) > 0 || Chance(3)) continue;
    if (decode.stopped.count(choice) == 0) {
      const OutputToken& token = right_[choice][next++];
      *event.message.mutable_tokens()->add_tokens() = token;
      if (!token.ends_sequence()) continue;
    }
    decode.finished.insert(choice);
    ended.push_back(choice);
  }
  if (event.message.has_tokens()) harness_.Feed(event);
  for (const uint32_t choice : ended) {
    event.message.mutable_finished()->set_exact(true);
    event.message.mutable_finished()->set_choice(choice);
    harness_.Feed(event);
  }
}

void PlayedWorkers::GoOn(uint32_t attempt, Prefill& prefill) {
  PrefillMessage event{.attempt = attempt, .message = {}};
  const Sequence& sequence = prefill.sequence;
  const auto decode = decodes_.find(attempt);
  const bool committed = decode != decodes_.end() && decode->second.committed;
  if (!std::exchange(prefill.started, true)) {
    event.message.mutable_started()->set_cached_tokens(1);
  } else if (prefill.first_tokens < sequence.choices) {
    const uint32_t choice = sequence.first_choice + prefill.first_tokens++;
    *event.message.mutable_first_token() = right_[choice][sequence.first_output];
  } else if (prefill.finished) {
    prefills_.erase(attempt);
    return harness_.Feed(PrefillEnded{attempt, absl::OkStatus()});
  } else if (prefill.alone || committed || AllEndAtFirst(sequence)) {
    prefill.finished = true;
    event.message.mutable_finished();
  } else {
    return;
  }
  harness_.Feed(event);
}

}  // namespace baton
