#include "tests/fuzz/request_harness.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

using internal::v1::OutputToken;

namespace {

// More than any request needs whose workers die, or whose time passes.
constexpr int kMostTurns = 5000;

}  // namespace

RequestHarness::RequestHarness(RequestSpec spec)
    : harness_(std::move(spec), RequestMachineOptions()) {
  ReadActions();
}

void RequestHarness::Do(RequestEvent event) {
  if (!CanCome(event)) return;
  Told(event);
  harness_.Feed(std::move(event));
  ReadActions();
}

void RequestHarness::ReadActions() {
  for (; read_ < harness_.actions.size(); ++read_) {
    BATON_CHECK(!ended_, "nothing follows the end");
    Check(harness_.actions[read_]);
  }
  BATON_CHECK(ended_ == done(), "it is done when it says so");
  if (ended_) CheckNoCallIsLeft();
}

void RequestHarness::Choose(uint64_t decode_id, bool local, const std::string& numerics) {
  const uint32_t number = asks_.front();
  asks_.erase(asks_.begin());
  Attempt& attempt = attempts_.at(number);
  const bool decode = attempt.needs.decode;
  WorkersChosen chosen = MachineHarness::Chosen(!(local && decode), decode);
  chosen.attempt = number;
  chosen.prefill_numerics = chosen.decode_numerics = numerics;
  if (decode) chosen.decode->id = decode_id;
  attempt.prefill.worker_id = chosen.prefill.has_value() ? chosen.prefill->id : 0;
  attempt.decode.worker_id = decode ? decode_id : 0;
  Do(chosen);
}

void RequestHarness::ChooseNone() {
  const uint32_t number = asks_.front();
  asks_.erase(asks_.begin());
  if (attempts_.at(number).needs.beside != 0) return Do(NoneElsewhere{number});
  Do(Abandoned{absl::UnavailableError("no worker")});
}

void RequestHarness::Pass(absl::Duration time) {
  harness_.PassTime(time);
  ReadActions();
}

void RequestHarness::AllWorkersDie() {
  for (int turn = 0; turn < kMostTurns && !done(); ++turn) {
    while (!asks_.empty() && !done()) Choose(2, false, "cpu");
    const auto attempts = attempts_;  // as they are now
    for (const auto& [number, attempt] : attempts) {
      if (attempt.decode.open()) Do(DecodeEnded{number, kKilled});
      if (attempt.prefill.open()) Do(PrefillEnded{number, kKilled});
    }
    if (asks_.empty()) Pass(absl::InfiniteDuration());
  }
  BATON_CHECK(done(), "it ends when all its workers die");
}

void RequestHarness::NothingHappens() {
  for (int turn = 0; turn < kMostTurns && !done(); ++turn) Pass(absl::InfiniteDuration());
  BATON_CHECK(done(), "it ends at its deadline");
}

void RequestHarness::CheckEnd() {
  BATON_CHECK(done(), "the request must have ended");
  Do(ClientCancelled{});
  Do(TimerFired{});
  for (uint32_t attempt = 1; attempt <= last_attempt(); ++attempt) {
    Do(DecodeEnded{attempt, kKilled});
    Do(PrefillEnded{attempt, absl::OkStatus()});
  }
}

bool RequestHarness::CanCome(const RequestEvent& event) const {
  const auto begun = [this](uint32_t number, Call Attempt::*call) {
    const auto attempt = attempts_.find(number);
    return attempt == attempts_.end() || (attempt->second.*call).begun;
  };
  if (const auto* said = std::get_if<DecodeMessage>(&event)) {
    return begun(said->attempt, &Attempt::decode);
  }
  if (const auto* said = std::get_if<PrefillMessage>(&event)) {
    return begun(said->attempt, &Attempt::prefill);
  }
  if (const auto* ended = std::get_if<DecodeEnded>(&event)) {
    return begun(ended->attempt, &Attempt::decode);
  }
  const auto* ended = std::get_if<PrefillEnded>(&event);
  return ended == nullptr || begun(ended->attempt, &Attempt::prefill);
}

void RequestHarness::Told(const RequestEvent& event) {
  const auto of = [this](uint32_t attempt) {
    return attempts_.contains(attempt) ? &attempts_[attempt] : nullptr;
  };
  if (const auto* decode = std::get_if<DecodeEnded>(&event)) {
    if (Attempt* attempt = of(decode->attempt)) attempt->decode.ended = true;
  } else if (const auto* prefill = std::get_if<PrefillEnded>(&event)) {
    if (Attempt* attempt = of(prefill->attempt)) attempt->prefill.ended = true;
  } else if (const auto* said = std::get_if<PrefillMessage>(&event)) {
    Attempt* attempt = of(said->attempt);
    if (attempt != nullptr) attempt->prefill.finished |= said->message.has_finished();
  }
}

void RequestHarness::Check(const RequestAction& action) {
  const auto call = [this](uint32_t attempt) -> Call& {
    Call& decode = attempts_.at(attempt).decode;
    BATON_CHECK(decode.begun && !decode.cancelled, "what is said in a call that is there");
    return decode;
  };
  if (const auto* ask = std::get_if<ChooseWorkers>(&action)) {
    Asked(*ask);
  } else if (const auto* open = std::get_if<OpenDecode>(&action)) {
    Begun(attempts_.at(open->attempt).decode, open->worker_id);
    CheckSequence(open->start.start().sequence(), attempts_.at(open->attempt));
  } else if (const auto* start = std::get_if<StartPrefill>(&action)) {
    Begun(attempts_.at(start->attempt).prefill, start->worker_id);
    CheckSequence(start->request.sequence(), attempts_.at(start->attempt));
  } else if (const auto* send = std::get_if<SendToDecode>(&action)) {
    BATON_CHECK(!call(send->attempt).closed, "nothing is said behind the last word");
  } else if (const auto* close = std::get_if<CloseDecode>(&action)) {
    BATON_CHECK(!std::exchange(call(close->attempt).closed, true), "a call is closed once");
  } else if (const auto* cancel = std::get_if<CancelDecode>(&action)) {
    call(cancel->attempt).cancelled = true;
  } else if (const auto* cancelled = std::get_if<CancelPrefill>(&action)) {
    Call& prefill = attempts_.at(cancelled->attempt).prefill;
    BATON_CHECK(prefill.begun && !std::exchange(prefill.cancelled, true),
                "a running prefill must be cancelled only once");
  } else if (const auto* deliver = std::get_if<Deliver>(&action)) {
    Delivered(deliver->response.chunk());
  } else if (const auto* complete = std::get_if<Complete>(&action)) {
    ended_ = true;
    Completed(*complete);
  } else if (const auto* fail = std::get_if<Fail>(&action)) {
    ended_ = true;
    BATON_CHECK(!fail->status.ok(), "a failure is an error");
  } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
    BATON_CHECK(timer->at <= harness_.machine.spec().deadline, "it looks at its deadline");
  }
}

void RequestHarness::Asked(const ChooseWorkers& ask) {
  BATON_CHECK(ask.attempt <= last_attempt(), "an attempt that there is");
  BATON_CHECK(attempts_[ask.attempt].needs.choices == 0, "its workers are asked for once");
  BATON_CHECK(ask.needs.choices > 0 && ask.needs.prompt_tokens > 0,
              "placement must be asked for choices and a prompt");
  attempts_[ask.attempt].needs = ask.needs;
  asks_.push_back(ask.attempt);
}

void RequestHarness::Begun(Call& call, uint64_t worker_id) const {
  BATON_CHECK(call.worker_id != 0 && call.worker_id == worker_id, "the chosen worker is called");
  BATON_CHECK(!std::exchange(call.begun, true), "a call must begin only once");
}

void RequestHarness::CheckSequence(const internal::v1::SequenceSpec& sequence,
                                   Attempt& attempt) const {
  std::vector<uint32_t> expected = harness_.machine.spec().prompt_token_ids;
  for (const OutputToken& token : harness_.machine.log(sequence.key().choice())) {
    expected.push_back(token.token().token_id());
  }
  BATON_CHECK(std::equal(expected.begin(), expected.end(), sequence.token_ids().begin(),
                         sequence.token_ids().end()),
              "an attempt goes on from the accepted tokens");
  attempt.first_output =
      static_cast<uint32_t>(sequence.token_ids_size()) - sequence.prompt_length();
}

void RequestHarness::Delivered(const v1::GenerateChunk& chunk) const {
  BATON_CHECK(harness_.machine.spec().stream, "only a stream has chunks");
  BATON_CHECK(chunk.index() < harness_.machine.spec().sampling.n(), "of a choice that there is");
  // The harness has collected what the chunk brings, and the log may be ahead of it.
  const auto delivered = harness_.ids_of.find(chunk.index());
  if (delivered == harness_.ids_of.end()) return;
  const std::vector<OutputToken>& log = harness_.machine.log(chunk.index());
  BATON_CHECK(delivered->second.size() <= log.size(), "no more than was accepted");
  for (size_t i = 0; i < delivered->second.size(); ++i) {
    BATON_CHECK(delivered->second[i] == log[i].token().token_id(),
                "only accepted tokens may be delivered");
  }
}

void RequestHarness::Completed(const Complete& complete) const {
  const RequestSpec& spec = harness_.machine.spec();
  BATON_CHECK(complete.responses.size() == spec.sampling.n(), "an answer for each choice");
  for (uint32_t choice = 0; choice < spec.sampling.n(); ++choice) {
    const std::vector<OutputToken>& log = harness_.machine.log(choice);
    BATON_CHECK(!log.empty() && log.size() <= spec.sampling.max_tokens(), "that has its tokens");
    for (size_t i = 0; i < log.size(); ++i) {
      BATON_CHECK(log[i].output_index() == i && log[i].choice() == choice, "each of them once");
      BATON_CHECK(!log[i].ends_sequence() || i + 1 == log.size(), "up to the last");
    }
    const v1::FinishReason reason = complete.responses[choice].complete().finish_reason();
    BATON_CHECK(reason == v1::FINISH_REASON_STOP || reason == v1::FINISH_REASON_LENGTH,
                "and a reason to end");
  }
}

void RequestHarness::CheckNoCallIsLeft() const {
  for (const auto& [number, attempt] : attempts_) {
    const Call &decode = attempt.decode, &prefill = attempt.prefill;
    BATON_CHECK(!decode.open() || decode.closed, "a decode call is left open");
    BATON_CHECK(!prefill.open() || prefill.finished, "a prefill call is left open");
  }
}

OutputToken RequestHarness::Right(uint32_t choice, uint32_t index) const {
  const uint32_t id = (choice * 7 + index * 3) % 26;
  return index + 1 == harness_.machine.spec().sampling.max_tokens()
             ? LastToken(index, id, v1::FINISH_REASON_LENGTH, choice)
             : Token(index, id, choice);
}

OutputToken RequestHarness::NextFromDecode(uint32_t number, uint32_t choice) {
  if (!attempts_.contains(number)) return Right(choice, 0);
  Attempt& attempt = attempts_[number];
  const auto next = attempt.next_from_decode.emplace(choice, attempt.first_output).first;
  return Right(choice, next->second++);
}

OutputToken RequestHarness::NextFromPrefill(uint32_t number, uint32_t choice) const {
  const auto attempt = attempts_.find(number);
  return Right(choice, attempt == attempts_.end() ? 0 : attempt->second.first_output);
}

}  // namespace baton
