#include "router/request/request_machine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/rpc/status.h"
#include "router/request/errors.h"
#include "router/request/resume.h"

namespace baton {

RequestMachine::RequestMachine(RequestSpec spec, const TokenTable& table,
                               const RequestMachineOptions& options)
    : request_(std::make_unique<RequestState>(std::move(spec), table, options)) {}

RequestActions RequestMachine::Start(absl::Time now) {
  request_->now = request_->gained_at = now;
  choices_.emplace_back(*request_);
  return TakeActions();
}

RequestActions RequestMachine::Handle(const RequestEvent& event, absl::Time now) {
  if (done()) return {};
  request_->now = now;
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  return TakeActions();
}

RequestActions RequestMachine::TakeActions() {
  if (!done() && NextTimer() != timer_) {
    timer_ = NextTimer();
    request_->Ask(SetTimer{timer_});
  }
  return std::exchange(request_->actions, {});
}

void RequestMachine::Settle() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    for (Choices& fork : choices_[i].TakeForks()) choices_.push_back(std::move(fork));
  }
  if (request_->failed()) {
    for (Choices& choices : choices_) choices.CancelCalls();
    request_->Ask(Fail{*request_->failure});
    done_ = true;
  } else if (std::all_of(choices_.begin(), choices_.end(),
                         [](const Choices& choices) { return choices.done(); })) {
    request_->Ask(request_->MakeComplete());
    done_ = true;
  }
}

void RequestMachine::On(const Abandoned& event) { request_->Fail(event.status); }

void RequestMachine::On(const ClientCancelled&) {
  request_->Fail(absl::CancelledError("the client cancelled the call"));
}

// The attempt may have broken before, or all its choices may have ended: the client has its tokens.
void RequestMachine::On(const DecodeEnded& event) {
  // tests/planted_bugs: distrusted_tokens
  if (IsDistrust(event.status) && request_->gave_tokens.count(event.attempt) > 0) {
    request_->Fail(TokensMayBeWrong());
  }
  ToChoices(event);
}

void RequestMachine::On(const ClientBehind&) {
  if (request_->paused) return;
  // tests/planted_bugs: router_stalled_client_forgotten
  read_by_ = request_->now + request_->options.stall_timeout;
  SetPaused(true);
}

void RequestMachine::On(const ClientCaughtUp&) {
  if (!request_->paused) return;
  read_by_ = absl::InfiniteFuture();
  // tests/planted_bugs: router_pause_forgotten
  SetPaused(false);
}

void RequestMachine::SetPaused(bool paused) {
  request_->paused = paused;
  for (Choices& choices : choices_) choices.FlowChanged();
}

void RequestMachine::On(const TimerFired&) {
  timer_ = absl::InfiniteFuture();
  const absl::Time now = request_->now;
  const bool deadline = now >= request_->spec.deadline;
  const auto computes = [](const Choices& choices) {
    return !choices.done() && !choices.finishing();
  };
  // tests/planted_bugs: router_deadline_not_kept
  if (finishing()) {
    for (Choices& choices : choices_) {
      if (!choices.done()) deadline ? choices.FinishNow() : choices.OnTimer();
    }
  } else if (deadline) {
    const auto first = std::find_if(choices_.begin(), choices_.end(), computes);
    request_->Fail(DeadlinePassed(first->attempt().stage()));
  } else if (now >= read_by_) {
    request_->Fail(ClientStalled(request_->options.stall_timeout));
  } else if (now >= progress_by()) {
    const auto first = std::find_if(choices_.begin(), choices_.end(), computes);
    request_->Fail(NoProgress(first->attempt().stage(), request_->options.progress_timeout));
  } else {
    for (Choices& choices : choices_) {
      if (!choices.done() && !request_->failed()) choices.OnTimer();
    }
  }
}

bool RequestMachine::finishing() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choices& choices) { return choices.done() || choices.finishing(); });
}

absl::Time RequestMachine::NextTimer() const {
  absl::Time next = request_->spec.deadline;
  if (!finishing()) next = std::min({next, read_by_, progress_by()});
  for (const Choices& choices : choices_) {
    if (!choices.done()) next = std::min(next, choices.NextTimer());
  }
  return next;
}

bool RequestMachine::running(uint32_t attempt) const {
  return !done() && std::any_of(choices_.begin(), choices_.end(),
                                [&](const Choices& choices) { return choices.Runs(attempt); });
}

bool RequestMachine::prompt_computed(uint32_t attempt) const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [&](const Choices& choices) { return choices.prompt_computed(attempt); });
}

bool RequestMachine::prompt_computed() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const Choices& choices) {
    return choices.prompt_computed(choices.attempt().number);
  });
}

size_t RequestMachine::accepted_tokens() const {
  size_t tokens = 0;
  for (const RequestState::Choice& choice : request_->choices) tokens += choice.log.size();
  return tokens;
}

const std::vector<internal::v1::OutputToken>& RequestMachine::log(uint32_t choice) const {
  BATON_CHECK(choice < request_->choices.size(), "the request must have the choice", choice);
  return request_->choices[choice].log;
}

}  // namespace baton
