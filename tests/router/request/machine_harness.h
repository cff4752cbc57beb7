// A request machine with its two workers played by hand.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/rpc/status.h"
#include "router/request/request_machine.h"

namespace baton {

// Ids 0..25 are the letters a..z, 26 is a special token "<e>", 27 is the first half and 28 the
// second of "é".
inline const TokenTable& LetterTable() {
  static const std::vector<std::string> kBytes = [] {
    std::vector<std::string> bytes;
    for (char c = 'a'; c <= 'z'; ++c) bytes.emplace_back(1, c);
    bytes.insert(bytes.end(), {"<e>", "\xc3", "\xa9"});
    return bytes;
  }();
  static const TokenTable kTable = [] {
    TokenTable table;
    for (const std::string& bytes : kBytes) {
      table.bytes.push_back(bytes);
      table.special.push_back(bytes == "<e>");
    }
    return table;
  }();
  return kTable;
}

inline internal::v1::OutputToken Token(uint32_t index, uint32_t id, uint32_t choice = 0) {
  internal::v1::OutputToken token;
  token.set_choice(choice);
  token.set_output_index(index);
  token.mutable_token()->set_token_id(id);
  return token;
}

inline internal::v1::OutputToken LastToken(uint32_t index, uint32_t id, v1::FinishReason reason,
                                           uint32_t choice = 0) {
  internal::v1::OutputToken token = Token(index, id, choice);
  token.set_ends_sequence(true);
  token.set_finish_reason(reason);
  return token;
}

// The token of a step that guessed it, and of a step that `refused` guesses were wrong in.
inline internal::v1::OutputToken Guessed(internal::v1::OutputToken token) {
  token.set_guessed(true);
  return token;
}
inline internal::v1::OutputToken Refusing(internal::v1::OutputToken token, uint32_t refused) {
  token.set_refused_guesses(refused);
  return token;
}

// Feeds a machine and collects what it asks for and delivers.
class MachineHarness {
 public:
  // Workers that a test plays by hand may be silent for as long as it likes.
  static RequestMachineOptions NeverSilent() {
    return {.silence_timeout = absl::InfiniteDuration()};
  }
  explicit MachineHarness(RequestSpec spec, const RequestMachineOptions& options = NeverSilent())
      : machine(std::move(spec), LetterTable(), options) {
    Take(machine.Start(now));
  }

  // A request for `max_tokens` tokens, streamed with ids.
  static RequestSpec Spec(uint32_t max_tokens, std::vector<std::string> stop = {}) {
    RequestSpec spec;
    spec.prompt_token_ids = {1, 2, 3};
    spec.sampling.set_max_tokens(max_tokens);
    spec.sampling.set_n(1);
    for (std::string& text : stop) spec.sampling.add_stop(std::move(text));
    spec.stream = true;
    spec.return_token_ids = true;
    spec.received = absl::UnixEpoch();
    spec.deadline = spec.received + absl::Seconds(600);
    return spec;
  }

  // Workers that are chosen for no attempt in particular are the latest one's.
  void Feed(RequestEvent event) {
    auto* chosen = std::get_if<WorkersChosen>(&event);
    if (chosen != nullptr && chosen->attempt == 0) chosen->attempt = machine.attempt();
    Take(machine.Handle(event, now));
  }
  static WorkersChosen Chosen(bool prefill, bool decode) {
    WorkersChosen chosen;
    chosen.capability = std::string(16, 'c');
    chosen.prefill = prefill ? std::optional(WorkerName{1, "p"}) : std::nullopt;
    chosen.decode = decode ? std::optional(WorkerName{2, "d"}) : std::nullopt;
    chosen.decode_address = "d:1";
    chosen.prefill_numerics = chosen.decode_numerics = "cpu";
    return chosen;
  }
  void Choose(bool prefill, bool decode) { Feed(Chosen(prefill, decode)); }
  void DecodeAccepts() {
    DecodeMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_accepted()->set_cached_tokens(0);
    Feed(event);
  }
  void DecodeComputes(uint32_t computed_tokens) {
    DecodeMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_prefill_progress()->set_computed_tokens(computed_tokens);
    Feed(event);
  }
  void DecodeCommits() {
    DecodeMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_committed()->set_exact(true);
    Feed(event);
  }
  void DecodeSends(const std::vector<internal::v1::OutputToken>& tokens) {
    DecodeMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_tokens();
    for (const auto& token : tokens) *event.message.mutable_tokens()->add_tokens() = token;
    Feed(event);
  }
  void DecodeFinishes() {
    DecodeMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_finished()->set_exact(true);
    Feed(event);
  }
  void DecodeEnds(absl::Status status) { Feed(DecodeEnded{machine.attempt(), std::move(status)}); }
  void PrefillStarts(uint32_t cached_tokens = 0) {
    PrefillMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_started()->set_cached_tokens(cached_tokens);
    Feed(event);
  }
  void PrefillSends(const internal::v1::OutputToken& token) {
    PrefillMessage event{.attempt = machine.attempt(), .message = {}};
    *event.message.mutable_first_token() = token;
    Feed(event);
  }
  void PrefillFinishes() {
    PrefillMessage event{.attempt = machine.attempt(), .message = {}};
    event.message.mutable_finished()->set_bytes_sent(1000);
    Feed(event);
  }
  void PrefillEnds(absl::Status status) {
    Feed(PrefillEnded{machine.attempt(), std::move(status)});
  }
  // To the moment the machine asked to be woken, at most by `most`.
  void PassTime(absl::Duration most) {
    now = std::min(timer, now + most);
    if (now == timer) Feed(TimerFired{});
  }

  template <typename Action>
  int Count() const {
    int count = 0;
    for (const RequestAction& action : actions) count += std::holds_alternative<Action>(action);
    return count;
  }
  template <typename Action>
  const Action* Last() const {
    const Action* last = nullptr;
    for (const RequestAction& action : actions) {
      if (const auto* found = std::get_if<Action>(&action)) last = found;
    }
    return last;
  }
  int terminals() const { return Count<Complete>() + Count<Fail>(); }
  absl::Status failure() const {
    return Last<Fail>() == nullptr ? absl::OkStatus() : Last<Fail>()->status;
  }
  const v1::GenerateComplete& complete() const {
    return Last<Complete>()->responses.front().complete();
  }

  RequestMachine machine;
  absl::Time now = absl::UnixEpoch();
  absl::Time timer = absl::InfiniteFuture();
  RequestActions actions;  // all so far
  std::string text;        // delivered
  std::vector<uint32_t> ids;
  std::map<uint32_t, std::vector<uint32_t>> ids_of;  // [choice]

 private:
  void Take(RequestActions more) {
    for (RequestAction& action : more) {
      if (const auto* deliver = std::get_if<Deliver>(&action)) {
        text += deliver->response.chunk().text();
        const auto& chunk_ids = deliver->response.chunk().token_ids();
        ids.insert(ids.end(), chunk_ids.begin(), chunk_ids.end());
        std::vector<uint32_t>& choice_ids = ids_of[deliver->response.chunk().index()];
        choice_ids.insert(choice_ids.end(), chunk_ids.begin(), chunk_ids.end());
      }
      if (const auto* set = std::get_if<SetTimer>(&action)) timer = set->at;
      actions.push_back(std::move(action));
    }
  }
};

// What a call ends with when its worker dies.
inline const absl::Status kKilled = absl::UnavailableError("killed");

// What a Decode call ends with when an audit finds its KV wrong.
inline absl::Status KvWrong() {
  return WithErrorInfo(absl::DataLossError("wrong"), {kReasonKvWrong, kStageDecode, "d", {}});
}

// "abc", the last token ended by max_tokens.
inline std::vector<internal::v1::OutputToken> Abc() {
  return {Token(0, 0), Token(1, 1), LastToken(2, 2, v1::FINISH_REASON_LENGTH)};
}

// The next attempt has these workers, and both have taken it.
inline void StartAttempt(MachineHarness& harness, const WorkersChosen& chosen) {
  harness.Feed(chosen);
  harness.DecodeAccepts();
  harness.PrefillStarts();
}

// A machine whose prefill call is open.
inline MachineHarness Prefilling(uint32_t max_tokens = 3, std::vector<std::string> stop = {}) {
  MachineHarness harness(MachineHarness::Spec(max_tokens, std::move(stop)));
  StartAttempt(harness, MachineHarness::Chosen(true, true));
  return harness;
}

}  // namespace baton
