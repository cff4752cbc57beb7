#include "router/request/request_branch.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"
#include "router/request/request_errors.h"
#include "router/request/timeline.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillResponse;

RequestBranch::RequestBranch(RequestState& request, uint32_t first_choice, uint32_t count)
    : request_(request), history_(request.options.worker_timeout) {
  for (uint32_t i = 0; i < count; ++i) choices_.push_back({.choice = first_choice + i});
}

void RequestBranch::Start(absl::Time waits_since) {
  attempt_ = ++request_.last_attempt;
  waits_since_ = waits_since;
  accept_by_ = request_.now + request_.options.worker_timeout;
  request_.timings.set_attempts(request_.timings.attempts() + 1);
  AskForWorkers();
}

void RequestBranch::AskForWorkers() { request_.Ask(ChooseWorkers{attempt_, Needs()}); }

WorkerNeeds RequestBranch::Needs() const {
  const uint32_t remaining = remaining_tokens();
  WorkerNeeds needs = needs_;
  needs.decode = remaining > 1;
  needs.choices = static_cast<uint32_t>(choices_.size());
  needs.prompt_tokens =
      static_cast<uint32_t>(request_.spec.prompt_token_ids.size() + Log(choices_.front()).size());
  needs.max_total_tokens = needs.prompt_tokens + remaining;
  return needs;
}

void RequestBranch::On(const WorkersChosen& event) {
  BATON_CHECK(event.prefill.has_value() || event.decode.has_value(), "no worker was chosen");
  if (trial_.has_value() && event.attempt == trial_->attempt && !trial_->workers.has_value()) {
    trial_->workers = event;
    trial_->until = request_.now + request_.options.trial_wait;
    return OpenDecodeCall(event.attempt, event);
  }
  if (event.attempt != attempt_ || phase_ != Phase::kChoosing) return;
  workers_ = event;
  TellWorkers();
  EndQueue();
  if (!has_decode()) {
    CancelOldDecode();
    phase_ = Phase::kPrefilling;
    return StartPrefillCall(nullptr);
  }
  phase_ = Phase::kOpening;
  decode_open_ = true;
  next_trial_ = request_.options.accept_wait;
  try_at_ = request_.now + next_trial_;
  OpenDecodeCall(attempt_, workers_);
  if (old_decode_.has_value() && old_decode_->worker_id != workers_.decode->id) CancelOldDecode();
  if (request_.paused) SendFlow();
}

// Of the attempt that runs: what the client is told of them.
void RequestBranch::TellWorkers() {
  ContinueNumerics();
  request_.system_fingerprint = workers_.system_fingerprint;
  request_.timings.set_local_prefill(local());
  if (!local()) request_.timings.set_prefill_worker(workers_.prefill->name);
  if (has_decode()) request_.timings.set_decode_worker(workers_.decode->name);
}

void RequestBranch::OpenDecodeCall(uint32_t attempt, const WorkersChosen& workers) {
  OpenDecode open{.attempt = attempt, .worker_id = workers.decode->id, .start = {}};
  *open.start.mutable_start()->mutable_sequence() = MakeSequence(attempt, workers);
  open.start.mutable_start()->set_prefill_locally(!workers.prefill.has_value());
  request_.Ask(std::move(open));
}

// `accepted`: of the decode worker, null where there is none.
void RequestBranch::StartPrefillCall(const internal::v1::DecodeAccepted* accepted) {
  prefill_open_ = true;
  StartPrefill start{.attempt = attempt_, .worker_id = workers_.prefill->id, .request = {}};
  *start.request.mutable_sequence() = MakeSequence(attempt_, workers_);
  if (accepted != nullptr) {
    start.request.set_decode_address(workers_.decode_address);
    *start.request.mutable_decode_identity() = workers_.decode_identity;
    *start.request.mutable_decode_shape() = accepted->shape();
    start.request.set_decode_cached_tokens(accepted->cached_tokens());
  }
  request_.Ask(std::move(start));
}

void RequestBranch::On(const DecodeMessage& event) {
  if (trial_.has_value() && event.attempt == trial_->attempt) return OnTrialMessage(event);
  if (event.attempt != attempt_ || !decode_open_) return;
  CancelOldDecode();  // its worker has ended it by now, if it is the same
  switch (event.message.event_case()) {
    case DecodeResponse::kAccepted:
      return Accepted(event.message.accepted());
    case DecodeResponse::kCommitted:
      return Committed(event.message.committed().exact());
    case DecodeResponse::kTokens:
      for (const OutputToken& token : event.message.tokens().tokens()) {
        if (!request_.failed() && !done()) TakeToken(token, Source::kDecode);
      }
      return;
    case DecodeResponse::kFinished:
      return Finished(event.message.finished());
    case DecodeResponse::kPrefillProgress:
      computed_tokens_ = event.message.prefill_progress().computed_tokens();
      return;
    case DecodeResponse::kPreempted:
      return Preempted();
    case DecodeResponse::EVENT_NOT_SET:  // of a newer worker: nothing we need
      return;
  }
}

void RequestBranch::On(const PrefillMessage& event) {
  if (event.attempt != attempt_ || !prefill_open_) return;
  switch (event.message.event_case()) {
    case PrefillResponse::kStarted:
      TakenUp();
      computed_tokens_ = event.message.started().cached_tokens();
      return CachedTokens(*computed_tokens_);
    case PrefillResponse::kFirstToken:
      return TakeToken(event.message.first_token(), Source::kPrefill);
    case PrefillResponse::kFinished:
      return Finished(event.message.finished());
    case PrefillResponse::kProgress:
      computed_tokens_ = event.message.progress().computed_tokens();
      return;
    case PrefillResponse::EVENT_NOT_SET:
      return;
  }
}

void RequestBranch::Accepted(const internal::v1::DecodeAccepted& accepted) {
  BATON_FAILPOINT("router.accepted");
  if (phase_ != Phase::kOpening) {
    return request_.Fail(ProtocolBroken(kStageQueue, workers_.decode->name, "it accepted twice"));
  }
  CancelTrial();
  TakenUp();
  phase_ = Phase::kPrefilling;
  if (local()) return CachedTokens(accepted.cached_tokens());
  EndQueue();
  StartPrefillCall(&accepted);
}

void RequestBranch::TakenUp() {
  accepted_ = request_.admitted = true;
  accept_by_ = absl::InfiniteFuture();
}

void RequestBranch::EndQueue() {
  const absl::Duration waited = request_.now - waits_since_;
  *request_.timings.mutable_queue() =
      DurationToProto(DurationFromProto(request_.timings.queue()) + waited - queued_);
  queued_ = waited;
}

// What is repeated after a break is not what the request found.
void RequestBranch::CachedTokens(uint32_t tokens) {
  if (std::exchange(request_.cached_tokens_known, true)) return;
  request_.usage.set_cached_tokens(std::min(tokens, request_.usage.prompt_tokens()));
}

void RequestBranch::Committed(bool exact) {
  BATON_FAILPOINT("router.committed");
  if (phase_ == Phase::kOpening) {
    return request_.Fail(ProtocolBroken(kStageTransfer, workers_.decode->name,
                                        "it committed a prompt that it had not accepted"));
  }
  committed_ = true;
  committed_exact_ = exact;
  commit_by_ = absl::InfiniteFuture();
  if (phase_ == Phase::kPrefilling) phase_ = Phase::kDecoding;
}

void RequestBranch::Finished(const internal::v1::PrefillFinished& finished) {
  prefill_finished_ = true;
  AddPrefill(finished, &request_.timings);
  if (finishing()) return MaybeFinish();
  if (!committed_ && has_decode()) commit_by_ = request_.now + request_.options.commit_wait;
}

void RequestBranch::Finished(const internal::v1::DecodeFinished& finished) {
  Progress* progress = Find(finished.choice());
  if (progress == nullptr || !Ended(*progress)) {
    return request_.Fail(ProtocolBroken(
        kStageDecode, workers_.decode->name,
        absl::StrCat("it finished choice ", finished.choice(), " without a last token")));
  }
  progress->decode_finished = true;
  told_exact_ &= finished.exact();
  AddDecode(finished, local(), &request_.timings);
  MaybeFinish();
}

void RequestBranch::On(const DecodeEnded& event) {
  if (old_decode_.has_value() && event.attempt == old_decode_->attempt) old_decode_.reset();
  if (trial_.has_value() && event.attempt == trial_->attempt) {
    trial_->workers.reset();  // its call is over
    return EndTrial();
  }
  if (event.attempt != attempt_ || !decode_open_) return;
  decode_open_ = false;
  if (finishing()) return MaybeFinish();
  // A prefill worker whose first token ends the request aborts its push, and the decode worker may
  // be heard first.
  if (prefill_open_ && !committed_ && !prompt_computed()) {
    decode_end_ = event.status;
    commit_by_ = request_.now + request_.options.broken_attempt_wait;
    return;
  }
  BreakDecode(event.status);
}

void RequestBranch::On(const PrefillEnded& event) {
  if (event.attempt != attempt_ || !prefill_open_) return;
  prefill_open_ = false;
  if (finishing()) return MaybeFinish();
  if (committed_) return;
  if (!prompt_computed() || !has_decode()) {
    // What ended the decode worker's call first may be what ended this one; a transfer broke
    // because this worker did.
    if (decode_end_.has_value() && ErrorReason(*decode_end_) != kReasonKvTransferFailed) {
      return BreakDecode(*decode_end_);
    }
    return BreakPrefill(event.status);
  }
  // The decode worker may have all it needs and be about to say so.
  if (event.status.ok() && prefill_finished_) return;
  prefill_end_ = event.status;
  commit_by_ = request_.now + request_.options.broken_attempt_wait;
}

void RequestBranch::FlowChanged() {
  if (decode_open_) SendFlow();
}

void RequestBranch::SendFlow() {
  SendToDecode flow{.attempt = attempt_, .message = {}};
  flow.message.mutable_flow()->set_paused(request_.paused);
  request_.Ask(std::move(flow));
}

void RequestBranch::OnTimer() {
  const absl::Time now = request_.now;
  if (finishing()) {
    if (now >= finish_by_) FinishNow();
  } else if (now >= accept_by_) {
    request_.Fail(
        !why_it_waits_.ok()
            ? why_it_waits_
            : NoReadyWorker(absl::StrCat("no worker took the request within ",
                                         absl::FormatDuration(request_.options.worker_timeout))));
  } else if (now >= choose_at_) {
    choose_at_ = absl::InfiniteFuture();
    AskForWorkers();
  } else if (now >= commit_by_) {
    if (decode_end_.has_value()) return BreakDecode(*decode_end_);
    BreakPrefill(prefill_end_);
  } else if (trial_.has_value() && now >= trial_->until) {
    EndTrial();
  } else if (now >= try_at_) {
    BeginTrial();
  }
}

void RequestBranch::CancelCalls() {
  CancelTrial();
  if (prefill_open_) request_.Ask(CancelPrefill{attempt_});
  if (decode_open_) request_.Ask(CancelDecode{attempt_});
  prefill_open_ = decode_open_ = false;
  CancelOldDecode();
}

internal::v1::SequenceSpec RequestBranch::MakeSequence(uint32_t attempt,
                                                       const WorkersChosen& workers) const {
  const RequestSpec& spec = request_.spec;
  internal::v1::SequenceSpec sequence;
  sequence.mutable_key()->set_request_id_high(spec.id_high);
  sequence.mutable_key()->set_request_id_low(spec.id_low);
  sequence.mutable_key()->set_choice(choices_.front().choice);
  sequence.mutable_key()->set_attempt(attempt);
  sequence.mutable_token_ids()->Add(spec.prompt_token_ids.begin(), spec.prompt_token_ids.end());
  for (const OutputToken& token : Log(choices_.front())) {
    sequence.add_token_ids(token.token().token_id());
  }
  sequence.set_prompt_length(static_cast<uint32_t>(spec.prompt_token_ids.size()));
  *sequence.mutable_sampling() = spec.sampling;
  sequence.mutable_sampling()->set_n(static_cast<uint32_t>(choices_.size()));
  sequence.set_cache_salt(spec.cache_salt);
  sequence.set_capability(workers.capability);
  sequence.set_isolate(history_.isolate());
  const int64_t left = absl::ToInt64Milliseconds(spec.deadline - request_.now);
  sequence.set_remaining_ms(static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX)));
  return sequence;
}

// The choices of a branch have as many tokens until they part.
uint32_t RequestBranch::remaining_tokens() const {
  return request_.spec.sampling.max_tokens() - static_cast<uint32_t>(Log(choices_.front()).size());
}

absl::Time RequestBranch::NextTimer() const {
  const absl::Time trial = trial_.has_value() ? trial_->until : try_at_;
  return std::min({choose_at_, accept_by_, commit_by_, finish_by_, trial});
}

const char* RequestBranch::stage() const {
  if (!accepted_) return kStageQueue;
  return committed_ ? kStageDecode : kStagePrefill;
}

bool RequestBranch::Runs(uint32_t attempt) const {
  return !done() && (attempt == attempt_ || (trial_.has_value() && attempt == trial_->attempt));
}

bool RequestBranch::prompt_computed(uint32_t attempt) const {
  return !Runs(attempt) || (attempt == attempt_ && prompt_computed());
}

bool RequestBranch::prompt_computed() const {
  return std::all_of(choices_.begin(), choices_.end(), [this](const Progress& progress) {
    return Log(progress).size() > progress.base;
  });
}

}  // namespace baton
