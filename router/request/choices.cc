#include "router/request/choices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "router/request/attempt_requests.h"
#include "router/request/errors.h"

namespace baton {
namespace {

Attempt FirstAttempt(RequestState& request) {
  std::vector<ChoiceProgress> choices(request.choices.size());
  for (uint32_t i = 0; i < choices.size(); ++i) choices[i].choice = i;
  return {.number = ++request.last_attempt,
          .choices = std::move(choices),
          .waits_since = request.spec.received,
          .accept_by = request.options.AcceptBy(request.now)};
}

bool IsDue(const std::optional<absl::Time>& time, absl::Time now) {
  return time.has_value() && now >= *time;
}

}  // namespace

Choices::Choices(RequestState& request)
    : Choices(request, {.history = AttemptHistory(request.options.worker_timeout)},
              FirstAttempt(request)) {
  request_.timings.set_attempts(1);
  running_.AskForWorkers();
}

Choices::Choices(RequestState& request, PastAttempts past, Attempt attempt)
    : request_(request), past_(std::move(past)), running_(request, std::move(attempt)) {}

void Choices::On(const WorkersChosen& event) {
  BATON_CHECK(event.prefill.has_value() || event.decode.has_value(), "no worker was chosen");
  if (running_.hedge().Asks(event.attempt)) {
    running_.hedge().Choose(request_, event);
    return request_.Ask(MakeOpenDecode(request_, attempt(), event.attempt, event));
  }
  if (!running_.Is(event.attempt) || !attempt().Is<Attempt::Choosing>()) return;
  if (!event.decode.has_value()) CancelOldCall();
  running_.Open(event);
  if (old_call_.has_value() && old_call_->worker_id != event.decode->id) CancelOldCall();
  if (request_.paused) running_.SendFlow();
}

void Choices::On(const NoneElsewhere& event) {
  if (running_.hedge().Is(event.attempt)) running_.hedge().GiveUp(request_);
}

void Choices::On(const DecodeMessage& event) {
  if (running_.hedge().Is(event.attempt)) {
    if (event.message.has_accepted()) TakeHedge(event.message.accepted());
    return;
  }
  if (!running_.Is(event.attempt) || !attempt().calls.decode_open) return;
  CancelOldCall();  // its worker has ended it by now, if it is the same
  running_.Take(event.message);
}

void Choices::On(const DecodeEnded& event) {
  if (old_call_.has_value() && event.attempt == old_call_->attempt) old_call_.reset();
  if (running_.hedge().Is(event.attempt)) return running_.hedge().CallEnded(request_);
  // tests/planted_bugs: router_end_of_an_old_attempt
  if (!running_.Is(event.attempt) || !attempt().calls.decode_open) return;
  if (auto breakage = running_.DecodeEnded(event.status)) Resume(*std::move(breakage));
}

void Choices::On(const PrefillMessage& event) {
  if (!running_.Is(event.attempt) || !attempt().calls.prefill_open) return;
  if (auto breakage = running_.Take(event.message)) Resume(*std::move(breakage));
}

void Choices::On(const PrefillEnded& event) {
  if (!running_.Is(event.attempt) || !attempt().calls.prefill_open) return;
  if (auto breakage = running_.PrefillEnded(event.status)) Resume(*std::move(breakage));
}

void Choices::OnTimer() {
  const absl::Time now = request_.now;
  if (now < NextTimer()) return;
  const Attempt::State& state = attempt().state;
  const auto* choosing = std::get_if<Attempt::Choosing>(&state);
  const auto* prefilling = std::get_if<Attempt::Prefilling>(&state);
  // tests/planted_bugs: router_ignores_accept_timeout
  if (finishing()) {
    FinishNow();
  } else if (IsDue(attempt().accept_by, now)) {
    request_.Fail(
        !past_.why_it_waits.ok()
            ? past_.why_it_waits
            : NoReadyWorker(absl::StrCat(
                  "no worker took the request within ",
                  absl::FormatDuration(request_.options.queue_time +
                                       request_.options.worker_timeout),
                  ", as long as --max-queue-time and --resume-timeout allow; try again later")));
  } else if (choosing != nullptr && IsDue(choosing->ask_at, now)) {
    running_.AskForWorkers();
  } else if (prefilling != nullptr && IsDue(prefilling->commit_by, now)) {
    Resume(CommitMissed(attempt(), running_.PromptComputed()));
  } else if (running_.silent()) {
    if (auto breakage = running_.EndSilentCall()) Resume(*std::move(breakage));
  } else if (now >= attempt().hedge.NextTimer()) {
    attempt().hedge.running() ? running_.hedge().GiveUp(request_) : BeginHedge();
  }
}

void Choices::CancelCalls() {
  running_.CancelCalls();
  CancelOldCall();
}

bool Choices::Runs(uint32_t number) const {
  return !done() && (running_.Is(number) || attempt().hedge.Is(number));
}

bool Choices::prompt_computed(uint32_t number) const {
  return !Runs(number) || (running_.Is(number) && running_.PromptComputed());
}

// tests/planted_bugs: choices_resumed
void Choices::Resume(Breakage breakage) {
  if (request_.failed()) return;
  const std::vector<ChoiceProgress>& choices = attempt().choices;
  const bool parted = std::any_of(choices.begin(), choices.end(), [this](const auto& progress) {
    return !request_.choices[progress.choice].log.empty();
  });
  if (parted && choices.size() > 1) return ForkAll(breakage);
  running_.hedge().Cancel(request_);
  absl::StatusOr<WorkerNeeds> needs =
      NextNeeds(std::move(breakage), attempt(), request_.choices[choices.front().choice].log.size(),
                request_.now, past_);
  if (!needs.ok()) return request_.Fail(needs.status());
  request_.last_broken = past_.last_failure;
  request_.why_it_waits = past_.why_it_waits;
  ++request_.breaks;
  LeaveCalls(needs->prefer_decode != 0);
  Attempt next = Next(++request_.last_attempt, *std::move(needs));
  const absl::Duration delay = past_.history.delay();
  if (delay > absl::ZeroDuration()) next.state = Attempt::Choosing{.ask_at = request_.now + delay};
  running_.Begin(std::move(next));
  if (delay == absl::ZeroDuration()) running_.AskForWorkers();
}

// The blocks that the worker holds for all choices together cannot be resumed by a single choice.
void Choices::ForkAll(const Breakage& breakage) {
  CancelCalls();
  // The choices that have ended are done.
  request_.exact &= attempt().exact && attempt().hand_off_exact().value_or(true);
  for (const ChoiceProgress& choice : attempt().choices) {
    // tests/planted_bugs: choices_ended_one_resumed
    if (request_.Ended(choice.choice)) continue;
    forks_.push_back(Fork(choice));
    forks_.back().Resume(breakage);
  }
  running_.End();
}

Choices Choices::Fork(const ChoiceProgress& choice) const {
  Attempt broken = attempt();
  broken.choices = {choice};
  return Choices(request_, past_, std::move(broken));
}

Attempt Choices::Next(uint32_t number, WorkerNeeds needs) const {
  const Attempt& last = attempt();
  needs.alone = past_.history.opens_alone();
  return {.number = number,
          .needs = std::move(needs),
          .choices = BeginChoices(request_, last.choices),
          .isolate = past_.history.isolate(),
          .exact = last.exact && last.hand_off_exact().value_or(true),
          .waits_since = request_.now,
          .accept_by = last.accepted() ? request_.options.AcceptBy(request_.now) : last.accept_by};
}

void Choices::LeaveCalls(bool keep_decode) {
  const Attempt& last = attempt();
  if (last.calls.prefill_open) request_.Ask(CancelPrefill{last.number});
  CancelOldCall();
  if (!last.calls.decode_open) return;
  old_call_ = {.attempt = last.number, .worker_id = last.workers.decode->id};
  if (!keep_decode) CancelOldCall();
}

void Choices::CancelOldCall() {
  if (!old_call_.has_value()) return;
  // tests/planted_bugs: router_old_decode_call_left_open
  request_.Ask(CancelDecode{old_call_->attempt});
  old_call_.reset();
}

void Choices::BeginHedge() {
  WorkerNeeds needs = NeedsOf(request_, attempt());
  // While the client is behind, a sequence may stay preempted. One token comes without a decode
  // worker.
  if (!needs.decode || (request_.paused && attempt().accepted())) {
    return running_.hedge().GiveUp(request_);
  }
  running_.hedge().Begin(request_, std::move(needs), attempt().number,
                         attempt().workers.decode->id);
}

void Choices::TakeHedge(const internal::v1::DecodeAccepted& accepted) {
  const HedgedAttempt hedged = running_.hedge().Take();
  CancelCalls();
  running_.Begin(Next(hedged.number, attempt().needs));
  running_.OpenAccepted(*hedged.workers, accepted);
}

}  // namespace baton
