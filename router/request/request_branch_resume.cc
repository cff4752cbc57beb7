// The part of a branch that goes on after an attempt has ended early.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/numerics.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "router/request/request_branch.h"
#include "router/request/request_errors.h"
#include "router/request/timeline.h"

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

// The decode worker took no push; the prefill worker only passes that on.
bool IsPushRefusal(const absl::Status& cause) {
  return TakesNoWork(cause) && GetErrorInfo(cause)->stage == kStageTransfer;
}

}  // namespace

void RequestBranch::BreakPrefill(const absl::Status& cause) {
  if (has_decode() && IsPushRefusal(cause)) return BreakDecode(cause);
  const bool transfer = prompt_computed() && has_decode();
  Breakage breakage{
      .failure = AttemptBroken(transfer ? kStageTransfer : kStagePrefill, workers_.prefill->name,
                               transfer ? kReasonKvTransferFailed : kReasonWorkerLost, cause)};
  breakage.avoid.push_back(workers_.prefill->id);
  if (IsDeath(cause) && computed_tokens_.has_value() && !prompt_computed()) {
    breakage.died = AttemptHistory::Place::Phase::kPrefill;
  }
  Resume(std::move(breakage));
}

void RequestBranch::BreakDecode(const absl::Status& cause) {
  const char* stage = kStageQueue;
  if (accepted_) stage = local() ? kStagePrefill : kStageTransfer;
  if (committed_) stage = kStageDecode;
  Breakage breakage{.failure =
                        AttemptBroken(stage, workers_.decode->name, kReasonWorkerLost, cause)};
  if (!IsTransferFailure(cause)) breakage.avoid.push_back(workers_.decode->id);
  if (IsDeath(cause) && (committed_ || (local() && computed_tokens_.has_value()))) {
    breakage.died =
        committed_ ? AttemptHistory::Place::Phase::kDecode : AttemptHistory::Place::Phase::kPrefill;
  }
  Resume(std::move(breakage));
}

void RequestBranch::Resume(Breakage breakage) {
  const bool parted = std::any_of(choices_.begin(), choices_.end(),
                                  [this](const Progress& p) { return !Log(p).empty(); });
  if (parted && choices_.size() > 1) return Part(breakage);
  CancelTrial();
  if (!MayResume(breakage)) return;
  // A transfer that failed once may be the prefill worker's fault, and the decode worker has a part
  // of the prompt. Twice, and it is tried with two others.
  if (IsTransferFailure(breakage.failure)) {
    if (!local()) breakage.avoid.push_back(workers_.prefill->id);
    if (IsTransferFailure(failure_)) breakage.avoid.push_back(workers_.decode->id);
  }
  if (IsMismatch(breakage.failure) && !local() && has_decode()) {
    // Which of the two is the wrong one, neither can tell.
    breakage.avoid = {workers_.prefill->id, workers_.decode->id};
  }
  const bool decode_lives = has_decode() && std::count(breakage.avoid.begin(), breakage.avoid.end(),
                                                       workers_.decode->id) == 0;
  needs_ = {.resumed = true,
            .avoid = std::move(breakage.avoid),
            .prefer_decode = decode_lives ? workers_.decode->id : 0};
  // That nobody takes it any more explains less than what broke it.
  if (accepted_ || why_it_waits_.ok()) why_it_waits_ = breakage.failure;
  failure_ = request_.last_broken = std::move(breakage.failure);
  ++request_.breaks;

  if (prefill_open_) request_.Ask(CancelPrefill{attempt_});
  CancelOldDecode();
  if (decode_open_) old_decode_ = {attempt_, workers_.decode->id};
  if (!decode_lives) CancelOldDecode();
  if (committed_) exact_so_far_ &= committed_exact_;

  BeginAttempt(++request_.last_attempt);
  choose_at_ = request_.now + history_.delay();
  if (choose_at_ > request_.now) return;
  choose_at_ = absl::InfiniteFuture();
  AskForWorkers();
}

// What their worker holds for all of them together serves none of them alone.
void RequestBranch::Part(const Breakage& breakage) {
  CancelCalls();
  phase_ = Phase::kDone;
  request_.exact &= exact_so_far_ && committed_exact_;  // of those that have ended
  RequestBranch alone = *this;
  alone.phase_ = Phase::kDecoding;
  for (const Progress& progress : choices_) {
    if (Ended(progress)) continue;
    RequestBranch& part = parts_.emplace_back(alone);
    part.choices_ = {progress};
    part.Resume(breakage);
  }
}

bool RequestBranch::MayResume(const Breakage& breakage) {
  if (!AnotherMayServe(breakage.failure)) {
    request_.Fail(breakage.failure);
    return false;
  }
  std::optional<AttemptHistory::Place> died;
  if (breakage.died.has_value()) {
    const bool decoding = *breakage.died == AttemptHistory::Place::Phase::kDecode;
    died = {.phase = *breakage.died,
            .output_index = Log(choices_.front()).size(),
            .computed_tokens = decoding ? 0 : *computed_tokens_};
  }
  const bool decoded = std::any_of(choices_.begin(), choices_.end(), [this](const Progress& p) {
    return p.next_from_decode > p.base + (local() ? 0 : 1);
  });
  switch (history_.Broke(died, decoded, request_.now)) {
    case AttemptHistory::Verdict::kResume:
      return true;
    case AttemptHistory::Verdict::kGiveUp:
      request_.Fail(breakage.failure);
      return false;
    case AttemptHistory::Verdict::kPoison:
      request_.Fail(PoisonRequest(breakage.failure));
      return false;
  }
  return false;
}

void RequestBranch::BeginAttempt(uint32_t attempt) {
  if (accepted_) accept_by_ = request_.now + request_.options.worker_timeout;
  queued_ = absl::ZeroDuration();
  waits_since_ = request_.now;
  attempt_ = attempt;
  request_.timings.set_attempts(request_.timings.attempts() + 1);
  phase_ = Phase::kChoosing;
  workers_ = {};
  accepted_ = decode_open_ = prefill_open_ = prefill_finished_ = committed_ = false;
  committed_exact_ = told_exact_ = true;
  computed_tokens_.reset();
  commit_by_ = absl::InfiniteFuture();
  prefill_end_ = absl::OkStatus();
  decode_end_.reset();
  for (Progress& progress : choices_) {
    progress.base = progress.next_from_decode = Log(progress).size();
    progress.prefill_copy_seen = progress.decode_finished = false;
  }
}

void RequestBranch::CancelOldDecode() {
  if (!old_decode_.has_value()) return;
  request_.Ask(CancelDecode{old_decode_->attempt});
  old_decode_.reset();
}

void RequestBranch::ContinueNumerics() {
  if (request_.numerics.empty()) return;
  const std::string& computes = local() ? workers_.decode_numerics : workers_.prefill_numerics;
  exact_so_far_ &= computes == request_.numerics && PromisesBits(computes);
}

}  // namespace baton
