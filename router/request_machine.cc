#include "router/request_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/rpc/status.h"
#include "router/request_errors.h"
#include "router/timeline.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::OutputToken;
using internal::v1::PrefillResponse;

RequestMachine::RequestMachine(RequestSpec spec, const TokenTable& table,
                               const RequestMachineOptions& options)
    : spec_(std::move(spec)), table_(table), options_(options), history_(options.worker_timeout) {
  for (uint32_t index = 0; index < spec_.sampling.n(); ++index) {
    choices_.push_back(
        {.output = ChoiceOutput(
             table, spec_.sampling,
             {.choice = index, .stream = spec_.stream, .return_token_ids = spec_.return_token_ids}),
         .log = {}});
  }
  usage_.set_prompt_tokens(static_cast<uint32_t>(spec_.prompt_token_ids.size()));
  timings_.set_attempts(attempt_);
}

RequestActions RequestMachine::Start(absl::Time now) {
  now_ = now;
  waits_since_ = spec_.received;
  accept_by_ = now + options_.worker_timeout;
  AskForWorkers();
  timer_ = NextTimer();
  Ask(SetTimer{timer_});
  return std::exchange(actions_, {});
}

RequestActions RequestMachine::Handle(const RequestEvent& event, absl::Time now) {
  if (done()) return {};
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  if (!done() && NextTimer() != timer_) {
    timer_ = NextTimer();
    Ask(SetTimer{timer_});
  }
  return std::exchange(actions_, {});
}

void RequestMachine::AskForWorkers() {
  const uint32_t remaining = remaining_tokens();
  needs_.decode = remaining > 1;
  needs_.prompt_tokens =
      static_cast<uint32_t>(spec_.prompt_token_ids.size() + choices_[0].log.size());
  needs_.max_total_tokens = needs_.prompt_tokens + remaining;
  Ask(ChooseWorkers{needs_});
}

void RequestMachine::On(const WorkersChosen& event) {
  BATON_CHECK(phase_ == Phase::kChoosing, "workers chosen twice for one attempt");
  BATON_CHECK(event.prefill.has_value() || event.decode.has_value(), "no worker was chosen");
  workers_ = event;
  ContinueNumerics();
  timings_.set_local_prefill(!workers_.prefill.has_value());
  if (workers_.prefill.has_value()) timings_.set_prefill_worker(workers_.prefill->name);
  if (!workers_.decode.has_value()) {
    CancelOldDecode();
    prefill_open_ = true;
    phase_ = Phase::kPrefilling;
    EndQueue();
    StartPrefill start{.attempt = attempt_, .worker_id = workers_.prefill->id, .request = {}};
    *start.request.mutable_sequence() = MakeSequence();
    Ask(std::move(start));
    return;
  }
  timings_.set_decode_worker(workers_.decode->name);
  decode_open_ = true;
  phase_ = Phase::kOpening;
  EndQueue();
  OpenDecode open{.attempt = attempt_, .worker_id = workers_.decode->id, .start = {}};
  *open.start.mutable_start()->mutable_sequence() = MakeSequence();
  open.start.mutable_start()->set_prefill_locally(!workers_.prefill.has_value());
  Ask(std::move(open));
  if (old_decode_.has_value() && old_decode_->worker_id != workers_.decode->id) CancelOldDecode();
  if (paused_) SendFlow();
}

void RequestMachine::On(const Abandoned& event) { FailWith(event.status); }

void RequestMachine::On(const DecodeMessage& event) {
  if (event.attempt != attempt_ || !decode_open_) return;
  CancelOldDecode();  // its worker has ended it by now, if it is the same
  switch (event.message.event_case()) {
    case DecodeResponse::kAccepted:
      return Accepted(event.message.accepted());
    case DecodeResponse::kCommitted:
      return Committed(event.message.committed().exact());
    case DecodeResponse::kTokens:
      for (const OutputToken& token : event.message.tokens().tokens()) {
        if (!done()) TakeToken(token, Source::kDecode);
      }
      return;
    case DecodeResponse::kFinished:
      return Finished(event.message.finished());
    case DecodeResponse::kPrefillProgress:
      computed_tokens_ = event.message.prefill_progress().computed_tokens();
      return;
    case DecodeResponse::kPreempted:
    case DecodeResponse::EVENT_NOT_SET:  // of a newer worker: nothing we need
      return;
  }
}

void RequestMachine::On(const PrefillMessage& event) {
  if (event.attempt != attempt_ || !prefill_open_) return;
  switch (event.message.event_case()) {
    case PrefillResponse::kStarted:
      TakenUp();
      if (attempt_ > 1) return;
      usage_.set_cached_tokens(
          std::min(event.message.started().cached_tokens(), usage_.prompt_tokens()));
      return;
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

void RequestMachine::Accepted(const internal::v1::DecodeAccepted& accepted) {
  if (phase_ != Phase::kOpening) {
    return FailWith(ProtocolBroken(kStageQueue, workers_.decode->name, "it accepted twice"));
  }
  TakenUp();
  phase_ = Phase::kPrefilling;
  if (!workers_.prefill.has_value()) {
    if (attempt_ > 1) return;
    usage_.set_cached_tokens(std::min(accepted.cached_tokens(), usage_.prompt_tokens()));
    return;
  }
  prefill_open_ = true;
  EndQueue();
  StartPrefill start{.attempt = attempt_, .worker_id = workers_.prefill->id, .request = {}};
  *start.request.mutable_sequence() = MakeSequence();
  start.request.set_decode_address(workers_.decode_address);
  *start.request.mutable_decode_identity() = workers_.decode_identity;
  *start.request.mutable_decode_shape() = accepted.shape();
  start.request.set_decode_cached_tokens(accepted.cached_tokens());
  Ask(std::move(start));
}

void RequestMachine::TakenUp() {
  accepted_ = admitted_ = true;
  accept_by_ = absl::InfiniteFuture();
}

void RequestMachine::EndQueue() {
  SetDuration(timings_.mutable_queue(), queued_before_ + (now_ - waits_since_));
}

void RequestMachine::Committed(bool exact) {
  if (phase_ == Phase::kOpening) {
    return FailWith(ProtocolBroken(kStageTransfer, workers_.decode->name,
                                   "it committed a prompt that it had not accepted"));
  }
  committed_ = true;
  committed_exact_ = exact;
  commit_by_ = absl::InfiniteFuture();
  if (phase_ == Phase::kPrefilling) phase_ = Phase::kDecoding;
}

void RequestMachine::Finished(const internal::v1::PrefillFinished& finished) {
  prefill_finished_ = true;
  AddPrefill(finished, &timings_);
  if (phase_ == Phase::kFinishing) return MaybeComplete();
  if (!committed_ && workers_.decode.has_value()) commit_by_ = now_ + options_.commit_wait;
}

void RequestMachine::Finished(const internal::v1::DecodeFinished& finished) {
  if (finished.choice() >= choices_.size() || !choices_[finished.choice()].output.ended()) {
    return FailWith(ProtocolBroken(
        kStageDecode, workers_.decode->name,
        absl::StrCat("it finished choice ", finished.choice(), " without a last token")));
  }
  choices_[finished.choice()].decode_finished = true;
  AddDecode(finished, timings_.local_prefill(), &timings_);
  MaybeComplete();
}

void RequestMachine::On(const DecodeEnded& event) {
  if (old_decode_.has_value() && event.attempt == old_decode_->attempt) old_decode_.reset();
  if (event.attempt != attempt_ || !decode_open_) return;
  decode_open_ = false;
  if (phase_ == Phase::kFinishing) return MaybeComplete();
  // A prefill worker whose first token ends the request aborts its push, and the decode worker may
  // be heard first.
  if (prefill_open_ && !committed_ && !prompt_computed()) {
    decode_end_ = event.status;
    commit_by_ = now_ + options_.broken_attempt_wait;
    return;
  }
  BreakDecode(event.status);
}

void RequestMachine::On(const PrefillEnded& event) {
  if (event.attempt != attempt_ || !prefill_open_) return;
  prefill_open_ = false;
  if (phase_ == Phase::kFinishing) return MaybeComplete();
  if (committed_) return;
  if (!prompt_computed() || !workers_.decode.has_value()) {
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
  commit_by_ = now_ + options_.broken_attempt_wait;
}

void RequestMachine::On(const ClientCancelled&) {
  FailWith(absl::CancelledError("the client cancelled the call"));
}

void RequestMachine::On(const ClientBehind&) {
  if (paused_) return;
  paused_ = true;
  read_by_ = now_ + options_.stall_timeout;
  if (decode_open_) SendFlow();
}

void RequestMachine::On(const ClientCaughtUp&) {
  if (!paused_) return;
  paused_ = false;
  read_by_ = absl::InfiniteFuture();
  if (decode_open_) SendFlow();
}

void RequestMachine::SendFlow() {
  SendToDecode flow;
  flow.message.mutable_flow()->set_paused(paused_);
  Ask(std::move(flow));
}

void RequestMachine::On(const TimerFired&) {
  timer_ = absl::InfiniteFuture();
  if (phase_ == Phase::kFinishing) {
    if (now_ >= std::min(complete_by_, spec_.deadline)) CompleteNow();
    return;
  }
  if (now_ >= spec_.deadline) {
    FailWith(DeadlinePassed(!accepted_ ? kStageQueue : committed_ ? kStageDecode : kStagePrefill));
  } else if (now_ >= read_by_) {
    FailWith(ClientStalled(options_.stall_timeout));
  } else if (now_ >= accept_by_) {
    FailWith(!why_it_waits_.ok()
                 ? why_it_waits_
                 : NoReadyWorker(absl::StrCat("no worker took the request within ",
                                              absl::FormatDuration(options_.worker_timeout))));
  } else if (now_ >= choose_at_) {
    choose_at_ = absl::InfiniteFuture();
    AskForWorkers();
  } else if (now_ >= commit_by_) {
    if (decode_end_.has_value()) return BreakDecode(*decode_end_);
    BreakPrefill(prefill_end_);
  }
}

void RequestMachine::FailWith(absl::Status status) {
  CancelCalls();
  phase_ = Phase::kDone;
  Ask(Fail{std::move(status)});
}

void RequestMachine::CancelCalls() {
  if (prefill_open_) Ask(CancelPrefill{attempt_});
  if (decode_open_) Ask(CancelDecode{attempt_});
  prefill_open_ = decode_open_ = false;
  CancelOldDecode();
}

internal::v1::SequenceSpec RequestMachine::MakeSequence() const {
  internal::v1::SequenceSpec sequence;
  sequence.mutable_key()->set_request_id_high(spec_.id_high);
  sequence.mutable_key()->set_request_id_low(spec_.id_low);
  sequence.mutable_key()->set_choice(0);
  sequence.mutable_key()->set_attempt(attempt_);
  sequence.mutable_token_ids()->Add(spec_.prompt_token_ids.begin(), spec_.prompt_token_ids.end());
  for (const OutputToken& token : choices_[0].log) sequence.add_token_ids(token.token().token_id());
  sequence.set_prompt_length(static_cast<uint32_t>(spec_.prompt_token_ids.size()));
  *sequence.mutable_sampling() = spec_.sampling;
  sequence.set_cache_salt(spec_.cache_salt);
  sequence.set_capability(workers_.capability);
  sequence.set_isolate(history_.isolate());
  const int64_t left = absl::ToInt64Milliseconds(spec_.deadline - now_);
  sequence.set_remaining_ms(static_cast<uint32_t>(std::clamp<int64_t>(left, 1, UINT32_MAX)));
  return sequence;
}

uint32_t RequestMachine::remaining_tokens() const {
  return spec_.sampling.max_tokens() - static_cast<uint32_t>(choices_[0].log.size());
}

absl::Time RequestMachine::NextTimer() const {
  return std::min({spec_.deadline, choose_at_, accept_by_, commit_by_, complete_by_,
                   phase_ == Phase::kFinishing ? absl::InfiniteFuture() : read_by_});
}

bool RequestMachine::prompt_computed() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.log.size() > choice.base; });
}

const std::vector<OutputToken>& RequestMachine::log(uint32_t choice) const {
  BATON_CHECK(choice < choices_.size(), "no such choice");
  return choices_[choice].log;
}

}  // namespace baton
