// The part of the request machine that goes on after an attempt has ended early.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/numerics.h"
#include "common/rpc/status.h"
#include "router/request_errors.h"
#include "router/request_machine.h"
#include "router/timeline.h"

namespace baton {
namespace {

// What two workers say of each other, not of the request: one of them was replaced since it was
// placed.
bool IsMismatch(const absl::Status& status) { return ErrorReason(status) == kReasonModelMismatch; }

// Another worker may do what this one did not. What a worker says about the request itself would be
// said again.
bool AnotherMayServe(const absl::Status& failure) {
  return absl::IsUnavailable(failure) || absl::IsResourceExhausted(failure) || IsMismatch(failure);
}

// The call broke with its worker: a worker that lives gives a reason.
bool IsDeath(const absl::Status& cause) {
  const std::string reason = ErrorReason(cause);
  return !cause.ok() && (reason.empty() || reason == kReasonWorkerLost);
}

bool IsTransferFailure(const absl::Status& status) {
  return ErrorReason(status) == kReasonKvTransferFailed;
}

}  // namespace

void RequestMachine::BreakPrefill(const absl::Status& cause) {
  const bool transfer = prompt_computed() && workers_.decode.has_value();
  Breakage breakage{
      .failure = AttemptBroken(transfer ? kStageTransfer : kStagePrefill, workers_.prefill->name,
                               transfer ? kReasonKvTransferFailed : kReasonWorkerLost, cause)};
  breakage.avoid.push_back(workers_.prefill->id);
  if (IsDeath(cause) && accepted_ && !prompt_computed()) {
    breakage.died = {.phase = AttemptHistory::Place::Phase::kPrefill,
                     .output_index = choices_[0].log.size(),
                     .computed_tokens = computed_tokens_};
  }
  Resume(std::move(breakage));
}

void RequestMachine::BreakDecode(const absl::Status& cause) {
  const bool local = timings_.local_prefill();
  const char* stage = kStageQueue;
  if (accepted_) stage = local ? kStagePrefill : kStageTransfer;
  if (committed_) stage = kStageDecode;
  Breakage breakage{.failure =
                        AttemptBroken(stage, workers_.decode->name, kReasonWorkerLost, cause)};
  if (!IsTransferFailure(cause)) breakage.avoid.push_back(workers_.decode->id);
  if (IsDeath(cause) && accepted_ && (committed_ || local)) {
    breakage.died = {.phase = committed_ ? AttemptHistory::Place::Phase::kDecode
                                         : AttemptHistory::Place::Phase::kPrefill,
                     .output_index = choices_[0].log.size(),
                     .computed_tokens = committed_ ? 0 : computed_tokens_};
  }
  Resume(std::move(breakage));
}

void RequestMachine::Resume(Breakage breakage) {
  if (!AnotherMayServe(breakage.failure)) return FailWith(std::move(breakage.failure));
  const Choice& choice = choices_[0];
  const bool decoded = choice.next_from_decode > choice.base + (timings_.local_prefill() ? 0 : 1);
  switch (history_.Broke(breakage.died, decoded, now_)) {
    case AttemptHistory::Verdict::kResume:
      break;
    case AttemptHistory::Verdict::kGiveUp:
      return FailWith(std::move(breakage.failure));
    case AttemptHistory::Verdict::kPoison:
      return FailWith(PoisonRequest(breakage.failure));
  }
  // A transfer that failed once may be the prefill worker's fault, and the decode worker has a part
  // of the prompt. Twice, and it is tried with two others.
  const bool transfer = IsTransferFailure(breakage.failure);
  if (transfer) {
    if (workers_.prefill.has_value()) breakage.avoid.push_back(workers_.prefill->id);
    if (IsTransferFailure(failure_)) breakage.avoid.push_back(workers_.decode->id);
  }
  if (IsMismatch(breakage.failure) && workers_.prefill.has_value() &&
      workers_.decode.has_value()) {  // which of the two is the wrong one, neither can tell
    breakage.avoid = {workers_.prefill->id, workers_.decode->id};
  }
  const bool decode_lives =
      workers_.decode.has_value() &&
      std::count(breakage.avoid.begin(), breakage.avoid.end(), workers_.decode->id) == 0;
  needs_ = {.resumed = true,
            .avoid = std::move(breakage.avoid),
            .prefer_decode = decode_lives ? workers_.decode->id : 0};
  // That nobody takes it any more explains less than what broke it.
  if (accepted_ || why_it_waits_.ok()) why_it_waits_ = breakage.failure;
  failure_ = std::move(breakage.failure);

  if (prefill_open_) Ask(CancelPrefill{attempt_});
  CancelOldDecode();
  if (decode_open_) old_decode_ = {attempt_, workers_.decode->id};
  if (!decode_lives) CancelOldDecode();
  if (committed_) exact_so_far_ &= committed_exact_;

  BeginNextAttempt();
  choose_at_ = now_ + history_.delay();
  if (choose_at_ > now_) return;
  choose_at_ = absl::InfiniteFuture();
  AskForWorkers();
}

void RequestMachine::BeginNextAttempt() {
  if (accepted_) accept_by_ = now_ + options_.worker_timeout;
  queued_before_ = GetDuration(timings_.queue());
  waits_since_ = now_;
  timings_.set_attempts(++attempt_);
  phase_ = Phase::kChoosing;
  workers_ = {};
  accepted_ = decode_open_ = prefill_open_ = prefill_finished_ = committed_ = false;
  committed_exact_ = true;
  computed_tokens_ = 0;
  commit_by_ = absl::InfiniteFuture();
  prefill_end_ = absl::OkStatus();
  decode_end_.reset();
  for (Choice& choice : choices_) {
    choice.base = choice.next_from_decode = choice.log.size();
    choice.prefill_copy_seen = choice.decode_finished = false;
  }
}

void RequestMachine::CancelOldDecode() {
  if (!old_decode_.has_value()) return;
  Ask(CancelDecode{old_decode_->attempt});
  old_decode_.reset();
}

void RequestMachine::ContinueNumerics() {
  if (numerics_.empty()) return;
  const std::string& computes =
      workers_.prefill.has_value() ? workers_.prefill_numerics : workers_.decode_numerics;
  exact_so_far_ &= computes == numerics_ && PromisesBits(computes);
}

}  // namespace baton
