#include "router/request/resume.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "router/request/errors.h"

namespace baton {
namespace {

using Phase = AttemptHistory::Place::Phase;

// Whether the error is about the two workers, not the request: one of them was replaced since the
// request was placed.
bool IsMismatch(const absl::Status& status) { return ErrorReason(status) == kReasonModelMismatch; }

bool IsProtocolError(const absl::Status& status) {
  return ErrorReason(status) == kReasonProtocolError;
}

// Another worker may do what this one did not. What a worker says about the request itself would be
// said again. If two workers in a row break the protocol, it is something about the request.
bool AnotherMayServe(const absl::Status& failure, const absl::Status& failure_before) {
  if (IsProtocolError(failure)) return !IsProtocolError(failure_before);
  // tests/planted_bugs: router_mismatch_ends_the_request
  return absl::IsUnavailable(failure) || absl::IsResourceExhausted(failure) || IsMismatch(failure);
}

// The call broke with its worker: a worker that lives gives a reason.
bool IsDeath(const absl::Status& cause) {
  const std::string reason = ErrorReason(cause);
  // tests/planted_bugs: router_refusal_counts_as_death
  return !cause.ok() && (reason.empty() || reason == kReasonWorkerLost);
}

// Whether a worker died before its first word. Only UNAVAILABLE counts: an error that gRPC itself
// reports of a message that it does not send has no reason either.
bool IsDeathUnheard(const absl::Status& cause) {
  return absl::IsUnavailable(cause) && IsDeath(cause);
}

bool IsTransferFailure(const absl::Status& status) {
  return ErrorReason(status) == kReasonKvTransferFailed;
}

// The decode worker took no push; the prefill worker only passes that on.
bool IsPushRefusal(const absl::Status& cause) {
  return TakesNoWork(cause) && GetErrorInfo(cause)->stage == kStageTransfer;
}

// The attempt came to decode: some choice has a token more than its prefill gives.
bool HasDecoded(const Attempt& attempt) {
  return std::any_of(attempt.choices.begin(), attempt.choices.end(), [&](const auto& progress) {
    return progress.next_from_decode > progress.base + (attempt.local() ? 0 : 1);
  });
}

// The link that the attempt's KV takes; none if it is handed off nowhere.
std::optional<LinkEnds> LinkOf(const Attempt& attempt) {
  if (attempt.local() || !attempt.has_decode()) return std::nullopt;
  return LinkEnds{.prefill = attempt.workers.prefill->name, .decode = attempt.workers.decode->name};
}

// The workers that the attempt after `broken` is to avoid.
std::vector<uint64_t> WorkersToAvoid(Breakage breakage, const Attempt& broken,
                                     const absl::Status& failure_before) {
  const WorkersChosen& workers = broken.workers;
  // Neither of the two knows which one is wrong.
  if (IsMismatch(breakage.failure) && !broken.local() && broken.has_decode()) {
    return {workers.prefill->id, workers.decode->id};
  }
  // A transfer that failed once may be the prefill worker's fault, while the decode worker has
  // pages from it. After a second failure the transfer is tried between two others.
  if (IsTransferFailure(breakage.failure)) {
    if (!broken.local()) breakage.avoid.push_back(workers.prefill->id);
    if (IsTransferFailure(failure_before)) breakage.avoid.push_back(workers.decode->id);
  }
  return std::move(breakage.avoid);
}

}  // namespace

bool IsDistrust(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == kReasonKvWrong || reason == kReasonPusherQuarantined;
}

Breakage PrefillBroken(const Attempt& attempt, bool prompt_computed, const absl::Status& cause) {
  if (attempt.has_decode() && IsPushRefusal(cause)) return DecodeBroken(attempt, cause);
  const bool transfer = prompt_computed && attempt.has_decode();
  const WorkerName& worker = *attempt.workers.prefill;
  Breakage breakage{.failure = AttemptBroken(transfer ? kStageTransfer : kStagePrefill, worker.name,
                                             transfer ? kReasonKvTransferFailed : kReasonWorkerLost,
                                             cause, LinkOf(attempt))};
  breakage.avoid.push_back(worker.id);
  const std::optional<uint32_t> computed_tokens = attempt.calls.computed_tokens;
  if (IsDeath(cause) && computed_tokens.has_value() && !prompt_computed) {
    breakage.died = {.phase = Phase::kPrefill, .computed_tokens = *computed_tokens};
  } else if (IsDeathUnheard(cause) && !prompt_computed) {
    breakage.died = {.phase = Phase::kOpening};
  }
  return breakage;
}

Breakage DecodeBroken(const Attempt& attempt, const absl::Status& cause) {
  const WorkerName& worker = *attempt.workers.decode;
  const char* stage = kStageQueue;
  if (attempt.accepted()) stage = attempt.local() ? kStagePrefill : kStageTransfer;
  if (attempt.committed()) stage = kStageDecode;
  Breakage breakage{
      .failure = AttemptBroken(stage, worker.name, kReasonWorkerLost, cause, LinkOf(attempt))};
  if (IsDistrust(cause)) {
    if (!attempt.local()) breakage.avoid.push_back(attempt.workers.prefill->id);
  } else if (!IsTransferFailure(cause)) {
    breakage.avoid.push_back(worker.id);
  }
  const std::optional<uint32_t> computed_tokens = attempt.calls.computed_tokens;
  if (!IsDeath(cause)) return breakage;
  if (!attempt.accepted()) {
    // tests/planted_bugs: router_opening_not_counted
    if (IsDeathUnheard(cause)) breakage.died = {.phase = Phase::kOpening};
  } else if (attempt.committed()) {
    breakage.died = {.phase = Phase::kDecode};
  } else if (attempt.local() && computed_tokens.has_value()) {
    breakage.died = {.phase = Phase::kPrefill, .computed_tokens = *computed_tokens};
  }
  return breakage;
}

Breakage CommitMissed(const Attempt& attempt, bool prompt_computed) {
  const auto& prefilling = std::get<Attempt::Prefilling>(attempt.state);
  return prefilling.decode_end.has_value()
             ? DecodeBroken(attempt, *prefilling.decode_end)
             : PrefillBroken(attempt, prompt_computed, prefilling.prefill_end);
}

absl::StatusOr<WorkerNeeds> NextNeeds(Breakage breakage, const Attempt& broken,
                                      size_t output_tokens, absl::Time now, PastAttempts& past) {
  if (IsTransferFailure(breakage.failure) && !broken.local() && broken.has_decode()) {
    past.links.Failed(broken.workers.prefill->id, broken.workers.decode->id,
                      PushFaultOf(breakage.failure) == kPushUnprotected, now);
  }
  const absl::Status failure = breakage.failure;
  if (!AnotherMayServe(failure, past.last_failure)) return failure;
  if (breakage.died.has_value()) breakage.died->output_index = output_tokens;
  switch (past.history.Broke(breakage.died, HasDecoded(broken), now)) {
    case AttemptHistory::Verdict::kResume:
      break;
    case AttemptHistory::Verdict::kGiveUp:
      return failure;
    case AttemptHistory::Verdict::kPoison:
      return PoisonRequest(failure);
  }
  WorkerNeeds needs{.resumed = true,
                    .avoid = WorkersToAvoid(std::move(breakage), broken, past.last_failure),
                    .spent_links = past.links.spent()};
  if (broken.has_decode() &&
      std::count(needs.avoid.begin(), needs.avoid.end(), broken.workers.decode->id) == 0) {
    needs.prefer_decode = broken.workers.decode->id;
  }
  // A refusal after a break explains less than the break.
  if (broken.accepted() || past.why_it_waits.ok()) past.why_it_waits = failure;
  past.last_failure = failure;
  return needs;
}

}  // namespace baton
