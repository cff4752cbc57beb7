// The part of a branch that tries another attempt beside the one that runs: where a decode worker
// does not accept, or has preempted the sequence for long, another one may have room.
//
// The running attempt keeps its call, and with it its place in that worker's line, until the other
// one is accepted. A worker that does not accept at once is left again, and the next trial comes
// after twice as long.
#include <utility>

#include "router/request/request_branch.h"

namespace baton {

void RequestBranch::BeginTrial() {
  try_at_ = absl::InfiniteFuture();
  WorkerNeeds needs = Needs();
  // One that is paused may stay preempted; one token comes without a decode worker.
  if (!needs.decode || (request_.paused && accepted_)) return EndTrial();
  needs.beside = attempt_;
  needs.prefer_decode = 0;
  needs.avoid.push_back(workers_.decode->id);
  trial_ = {.attempt = ++request_.last_attempt,
            .until = request_.now + request_.options.trial_wait};
  request_.Ask(ChooseWorkers{trial_->attempt, std::move(needs)});
}

void RequestBranch::EndTrial() {
  CancelTrial();
  next_trial_ *= 2;
  try_at_ = request_.now + next_trial_;
}

void RequestBranch::CancelTrial() {
  if (trial_.has_value() && trial_->workers.has_value()) {
    request_.Ask(CancelDecode{trial_->attempt});
  }
  trial_.reset();
  try_at_ = absl::InfiniteFuture();
}

void RequestBranch::On(const NoneElsewhere& event) {
  if (trial_.has_value() && event.attempt == trial_->attempt) EndTrial();
}

void RequestBranch::OnTrialMessage(const DecodeMessage& event) {
  if (event.message.has_accepted()) TakeTrial(event.message.accepted());
}

void RequestBranch::TakeTrial(const internal::v1::DecodeAccepted& accepted) {
  Trial trial = *std::exchange(trial_, std::nullopt);
  CancelCalls();
  if (committed_) exact_so_far_ &= committed_exact_;
  BeginAttempt(trial.attempt);
  workers_ = *std::move(trial.workers);
  TellWorkers();
  EndQueue();
  phase_ = Phase::kOpening;
  decode_open_ = true;
  if (request_.paused) SendFlow();
  Accepted(accepted);
}

// Choices that are still together stay where they are.
void RequestBranch::Preempted() {
  if (choices_.size() > 1 || finishing() || trial_.has_value()) return;
  next_trial_ = request_.options.preempted_wait;
  try_at_ = request_.now + next_trial_;
}

void RequestBranch::RunsAgain() {
  if (trial_.has_value() || try_at_ != absl::InfiniteFuture()) CancelTrial();
}

}  // namespace baton
