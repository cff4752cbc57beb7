#include "tests/simulation/router/sim_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

#include "common/rpc/status.h"
#include "tests/simulation/sim_open.h"

namespace baton {
namespace {

constexpr Micros kPatience = 30'000'000;  // RequestMachineOptions::worker_timeout
// What a broken worker may cost a request, in all: being noticed, and its work done again.
constexpr Micros kGentleTime = 6'000'000;
constexpr Micros kGrace = 2'000'000;  // Dispatcher::Options::no_worker_grace

std::string ErrorStage(const absl::Status& status) {
  return GetErrorInfo(status).value_or(ErrorInfo{}).stage;
}

}  // namespace

bool HasLongText(int32_t id) { return id % 8 == 0; }

const TokenTable& SimTokenTable() {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int32_t id = 0; id < kSimIds; ++id) {
      texts.push_back(absl::StrCat("<", id, ">"));
      if (HasLongText(id)) texts.back().append(24'000, 'x');
    }
    return texts;
  }();
  static const TokenTable kTable = [] {
    TokenTable table;
    for (const std::string& text : kTexts) table.bytes.push_back(text);
    table.special.resize(kTexts.size());
    return table;
  }();
  return kTable;
}

SimClient::Choice::Choice(const SimRequest::Choice& right, const std::string& stop_string)
    : output(right), stop(stop_string) {
  Expect();
}

void SimClient::Choice::Expect() {
  expected_ids.clear();
  expected_text.clear();
  expected_tokens = 0;
  for (const int32_t right : output.output) {
    const size_t index = expected_tokens++;
    expected_reason = v1::FINISH_REASON_STOP;
    if (right < kSimEndTokens) return;
    const bool wrong =
        index < ids.size() && IsToldWrong(output, index, static_cast<int32_t>(ids[index]));
    const int32_t id = wrong ? right + kSimWrong : right;
    expected_ids.push_back(static_cast<uint32_t>(id));
    const auto its_text = SimTokenTable().bytes[static_cast<size_t>(id)];
    if (!stop.empty() && its_text == stop) return;
    expected_text.append(its_text.data(), its_text.size());
  }
  expected_reason = v1::FINISH_REASON_LENGTH;
}

SimClient::SimClient(Sim& sim, SimClientRequest request) : sim_(sim), request_(std::move(request)) {
  for (const SimRequest::Choice& choice : request_.right->choices) {
    choices_.emplace_back(choice, request_.stop);
  }
}

absl::Time SimClient::Deadline() const {
  const bool has = request_.deadline < kNever;
  const Micros at = has ? request_.deadline : received_ + 600'000'000;
  return absl::UnixEpoch() + absl::Microseconds(at);
}

void SimClient::Begin() {
  state_ = State::kRunning;
  received_ = sim_.queue.now();
  sim_.Trace(70, static_cast<uint64_t>(index()));
}

std::unique_ptr<SimClientWriter> SimClient::Connect() {
  auto writer = std::make_unique<SimClientWriter>(
      sim_.queue,
      SimClientWriter::Client{
          .take = [this](const v1::GenerateResponse& response,
                         std::function<void()> taken) { Take(response, std::move(taken)); },
          .end =
              [this](const absl::Status& status) {
                call_ = nullptr;
                End(status);
              }});
  call_ = writer.get();
  return writer;
}

void SimClient::CheckDeadline() const {
  if (state_ != State::kRunning || reads_at_ > sim_.queue.now()) return;
  sim_.Violation("request ", index(), " lives a second after its deadline");
}

void SimClient::Cancel() {
  std::exchange(call_, nullptr)->ClientCancels();
  End(absl::CancelledError("the client has left"));
}

void SimClient::StopReading(Micros duration) {
  stopped_reading_ = true;
  reads_at_ = std::max(reads_at_, sim_.queue.now() + duration);
}

void SimClient::LoseRouter() {
  if (state_ != State::kRunning) return;
  router_died_ = true;
  End(absl::UnavailableError("the router is gone"));
}

void SimClient::Take(const v1::GenerateResponse& message, std::function<void()> taken) {
  const Micros at = std::max(sim_.queue.now() + sim_.random.Between(10, 200), reads_at_);
  auto response = std::make_shared<v1::GenerateResponse>(message);
  sim_.queue.At(at, [this, response, taken = std::move(taken)] {
    if (call_ == nullptr) return;
    taken();
    response->has_complete() ? Complete(response->complete()) : TakeText(response->chunk());
  });
}

void SimClient::Complete(const v1::GenerateComplete& complete) {
  TakeText(complete);
  Choice& choice = choices_[complete.index()];
  if (std::exchange(choice.completed, true)) {
    sim_.Violation("request ", index(), " completes a choice twice");
  }
  choice.reason = complete.finish_reason();
  complete_ = complete;
}

// I1, I5: the next tokens of this very choice, and the right ones, or what came from forged KV.
template <typename Response>
void SimClient::TakeText(const Response& response) {
  if (response.index() >= choices_.size()) {
    return sim_.Violation("request ", index(), " has no choice ", response.index());
  }
  TakeScores(response);
  Choice& choice = choices_[response.index()];
  choice.text += response.text();
  choice.ids.insert(choice.ids.end(), response.token_ids().begin(), response.token_ids().end());
  if (!choice.output.wrong.empty()) choice.Expect();
  if (choice.ids.size() > choice.expected_ids.size() ||
      !std::equal(choice.ids.begin(), choice.ids.end(), choice.expected_ids.begin())) {
    sim_.Violation("request ", index(), ": a wrong token at output ", choice.ids.size());
  }
  if (choice.text.size() > choice.expected_text.size() ||
      choice.expected_text.compare(0, choice.text.size(), choice.text) != 0) {
    sim_.Violation("request ", index(), ": a wrong text");
  }
}

// I1: in order and each once, before everything else that a stream has.
template <typename Response>
void SimClient::TakeScores(const Response& response) {
  const SimRequest& right = *request_.right;
  const bool early = std::all_of(choices_.begin(), choices_.end(),
                                 [](const Choice& choice) { return choice.ids.empty(); });
  for (const v1::TokenLogprob& score : response.prompt_logprobs()) {
    const size_t place = scores_++;
    const bool is_right = right.scored && place < right.prompt.size() && response.index() == 0 &&
                          early && score.token_id() == static_cast<uint32_t>(right.prompt[place]) &&
                          score.has_logprob() == (place > 0) &&
                          (place == 0 || score.logprob() == SimLogprob(right, place));
    if (!is_right) {
      sim_.Violation("request ", index(), ": a wrong log probability of prompt token ", place);
    }
  }
}

void SimClient::CheckComplete() {
  if (scores_ != (request_.right->scored ? request_.right->prompt.size() : 0)) {
    sim_.Violation("request ", index(), " has ", scores_, " log probabilities of its prompt");
  }
  sim_.coverage.scored += scores_ > 0 ? 1 : 0;
  uint32_t expected_tokens = 0;
  for (const Choice& choice : choices_) {
    if (!choice.completed) sim_.Violation("request ", index(), " ends OK without a complete");
    if (choice.ids != choice.expected_ids || choice.text != choice.expected_text) {
      sim_.Violation("request ", index(), " lacks tokens");
    }
    if (choice.reason != choice.expected_reason) {
      sim_.Violation("request ", index(), " ends for another reason");
    }
    expected_tokens += choice.expected_tokens;
  }
  const v1::Usage& usage = complete_.usage();
  if (usage.prompt_tokens() != request_.right->prompt.size() ||
      usage.completion_tokens() != expected_tokens) {
    sim_.Violation("request ", index(), " counts ", usage.completion_tokens(), " tokens, not ",
                   expected_tokens);
  }
  CheckGuesses();
  CheckWrongTokens();
  if (!complete_.timings().exact()) sim_.Violation("request ", index(), " is not exact");
  sim_.coverage.attempts += complete_.timings().attempts();
}

// What came of guesses is told as the worker told it that the answer's tokens are from, and of
// these tokens alone. Where several attempts gave a token, it may be from any of them.
void SimClient::CheckGuesses() const {
  using Guessed = SimRequest::Choice::Guessed;
  const auto check = [this](uint32_t told, SimRequest::Choice::Count Guessed::*of,
                            const char* what) {
    SimRequest::Choice::Count all{.least = 0, .most = 0};
    for (const Choice& choice : choices_) {
      for (const auto& [index, guessed] : choice.output.guessed) {
        if (static_cast<uint32_t>(index) >= choice.expected_tokens) break;
        all.least += (guessed.*of).least;
        all.most += (guessed.*of).most;
      }
    }
    if (told >= all.least && told <= all.most) return;
    sim_.Violation("request ", index(), " counts ", told, what, " guesses, not ", all.least, " to ",
                   all.most);
  };
  check(complete_.usage().accepted_prediction_tokens(), &Guessed::accepted, " accepted");
  check(complete_.usage().rejected_prediction_tokens(), &Guessed::refused, " refused");
}

// I7: no answer is whole that rests on KV of which the router has heard that it is wrong.
void SimClient::CheckWrongTokens() const {
  const SimRequest& right = *request_.right;
  bool any = false;
  for (const Choice& choice : choices_) {
    for (const auto& [index, attempt] : choice.output.wrong) {
      const auto place = static_cast<size_t>(index);
      if (place >= choice.ids.size() || !IsWrong(static_cast<int32_t>(choice.ids[place]))) continue;
      any = true;
      if (right.heard_wrong.count(attempt) == 0) continue;
      sim_.Violation("request ", this->index(), " ends with a token that an audit has found wrong");
    }
  }
  sim_.coverage.wrong_answers += any ? 1 : 0;
  sim_.coverage.answered_elsewhere += right.heard_wrong.empty() ? 0 : 1;
}

void SimClient::End(const absl::Status& status) {
  if (state_ == State::kEnded) return sim_.Violation("request ", index(), " ends twice");
  state_ = State::kEnded;
  ended_ = sim_.queue.now();
  status_ = status;
  ++ends_;
  const std::string reason = ErrorReason(status);
  sim_.Trace(71, static_cast<uint64_t>(index()), static_cast<uint64_t>(status.code()));
  ++sim_.coverage.outcomes[absl::StrCat(absl::StatusCodeToString(status.code()),
                                        reason.empty() ? "" : " ", reason)];
  const Micros took = ended_ - received_;
  sim_.coverage.longest_gentle =
      std::max(sim_.coverage.longest_gentle, sim_.plan.gentle ? took : 0);
  if (request_.must_succeed && took > kGentleTime) {
    sim_.Violation("request ", index(), " takes ", took, " us, in ", complete_.timings().attempts(),
                   " attempts: ", complete_.timings().ShortDebugString());
  }
  if (status.ok()) return CheckComplete();
  CheckFailure();
}

// A request fails for reasons that the client can be told, and none of them comes early.
void SimClient::CheckFailure() const {
  const auto wrong = [this](const char* what) {
    sim_.Violation("request ", index(), " fails ", what, ": ", status_.ToString());
  };
  if (absl::IsDataLoss(status_)) {
    // I7: it has tokens of an attempt whose pusher proved to forge.
    const SimRequest& right = *request_.right;
    const bool rests =
        std::any_of(right.heard_wrong.begin(), right.heard_wrong.end(), [&right](uint32_t attempt) {
          return right.distrusted.count(attempt) > 0 && right.gave_tokens.count(attempt) > 0;
        });
    if (ErrorReason(status_) != kReasonKvWrong || !rests) wrong("for no good reason");
    return;
  }
  if (request_.must_succeed) return wrong("though all is well");
  const Micros waited = ended_ - received_;
  const std::string reason = ErrorReason(status_);
  switch (status_.code()) {
    case absl::StatusCode::kCancelled:
      return;
    case absl::StatusCode::kDeadlineExceeded:
      if (ended_ < request_.deadline) wrong("before its deadline");
      return;
    case absl::StatusCode::kResourceExhausted:
      if (reason == kReasonQueueFull || reason == kReasonQueueTime) return;
      if (reason == "CLIENT_STALLED" && stopped_reading_) return;
      break;
    case absl::StatusCode::kInternal:
      return CheckPoison();
    case absl::StatusCode::kFailedPrecondition:
      if (reason != kReasonModelMismatch) return wrong("for no good reason");
      break;
    case absl::StatusCode::kUnavailable:
      if (router_died_ || (reason == kReasonDraining && ErrorStage(status_).empty())) return;
      if (reason == kReasonNoReadyWorker && waited >= kGrace) return;
      break;
    default:
      return wrong("for no good reason");
  }
  if (waited < kPatience) wrong("before its patience is at an end");
}

void SimClient::CheckPoison() const {
  const SimRequest& right = *request_.right;
  const bool stood_still = absl::StrContains(status_.message(), "stood still");
  // Two standstills may meet one request by chance, and four deaths in a row at one place.
  const bool may_be =
      stood_still ? right.stood_still.size() >= 2 : !right.kills.empty() || sim_.deaths >= 4;
  if (ErrorReason(status_) != kReasonPoisonRequest || !may_be) {
    sim_.Violation("request ", index(), " fails by mistake: ", status_.ToString());
  }
  sim_.coverage.standstills += stood_still ? 1 : 0;
}

}  // namespace baton
