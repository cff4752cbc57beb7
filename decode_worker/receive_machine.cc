#include "decode_worker/receive_machine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "decode_worker/receive_checks.h"

namespace baton {

using internal::v1::AttemptKey;
using internal::v1::OutputToken;
using internal::v1::PushAbort;
using internal::v1::PushCommit;
using internal::v1::PushJoin;
using internal::v1::PushOpen;
using internal::v1::PushRefused;
using internal::v1::PushRequest;

ReceiveMachine::ReceiveMachine(ReceiveConfig config, absl::Time now)
    : config_(std::move(config)),
      token_count_(static_cast<int>(config_.token_ids.size())),
      capability_expires_(now + config_.limits.capability_lifetime),
      now_(now),
      deadline_(now + config_.limits.reservation_timeout),
      data_(config_) {
  BATON_CHECK(token_count_ > 0, "a sequence has tokens");
}

std::vector<ReceiveAction::Any> ReceiveMachine::Handle(const ReceiveEvent::Any& event,
                                                       absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  return std::exchange(actions_, {});
}

void ReceiveMachine::On(const ReceiveEvent::ControlReceived& event) {
  const bool ours = event.stream == streams_.own();
  switch (event.message.event_case()) {
    case PushRequest::kOpen:
      return OnOpen(event);
    case PushRequest::kJoin:
      return OnJoin(event);
    case PushRequest::kCheckpoint:
      if (ours && state_ == State::kReceiving) return OnCheckpoint(event.message.checkpoint());
      break;
    case PushRequest::kCommit:
      if (ours && state_ == State::kReceiving) return OnCommit(event.message.commit());
      break;
    case PushRequest::kAlive:
      // tests/planted_bugs: sign_keeps_no_push
      if (ours && state_ == State::kReceiving) return ExpectMore();
      break;
    case PushRequest::kAbort:
      if (ours && Active()) {
        resumable_ = event.message.abort().reason() != PushAbort::REASON_FINISHED_AT_FIRST_TOKEN;
        return Fail(PushRefused::REASON_ABORTED,
                    absl::CancelledError("the prefill worker ended the push"));
      }
      break;
    default:
      break;
  }
  if (streams_.Carries(event.stream) && Active()) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE,
                absl::InvalidArgumentError(
                    "received a message that is not allowed at this stage of a KV push"));
  }
  TurnAway(event.stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push is not open");
}

void ReceiveMachine::OnOpen(const ReceiveEvent::ControlReceived& event) {
  const PushStreamId stream = event.stream;
  const PushOpen& open = event.message.open();
  if (!Authenticate(event, open.key(), open.capability())) return;
  if (state_ != State::kReserved) {
    return TurnAway(stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push was opened before");
  }
  BATON_FAILPOINT("receive_machine.before_open");
  streams_.Open(stream);
  state_ = State::kOpen;
  if (absl::Status status = CheckIdentity(config_, open); !status.ok()) {
    return Fail(PushRefused::REASON_MODEL_MISMATCH, std::move(status));
  }
  absl::StatusOr<PushTerms> terms = CheckOpen(config_, open);
  if (!terms.ok()) return Fail(PushRefused::REASON_SHAPE, terms.status());
  data_.Open(terms->wire);
  exact_ = terms->exact;
  push_deadline_ = now_ + config_.limits.push_timeout;
  deadline_ = now_ + config_.limits.open_timeout;
  BATON_FAILPOINT("receive_machine.opened");
  actions_.emplace_back(ReceiveAction::TakeBlocks{std::move(terms->numerics)});
}

void ReceiveMachine::On(const ReceiveEvent::Granted& event) {
  if (state_ != State::kOpen) return;
  BATON_CHECK(event.start_token >= 0 && event.start_token < token_count_ &&
                  event.start_token % kKvPageTokens == 0,
              "the last token is never cached, and whole pages are");
  BATON_FAILPOINT("receive_machine.granted");
  state_ = State::kReceiving;
  data_.SetStart(event.start_token);
  checkpointed_tokens_ = event.start_token;
  ExpectMore();
  ReceiveAction::Send opened{streams_.own(), {}};
  opened.message.mutable_opened()->set_start_token(static_cast<uint32_t>(event.start_token));
  opened.message.mutable_opened()->set_window_bytes(config_.limits.window_bytes);
  opened.message.mutable_opened()->set_takes_signs(true);
  actions_.emplace_back(std::move(opened));
}

void ReceiveMachine::On(const ReceiveEvent::DataReceived& event) {
  // tests/planted_bugs: data_is_expected
  if (state_ != State::kReceiving || !streams_.Carries(event.stream)) {
    actions_.emplace_back(ReceiveAction::Drop{event.message_id});
    if (event.stream == streams_.own() && state_ == State::kOpen) {
      return Fail(PushRefused::REASON_OUT_OF_RANGE,
                  absl::InvalidArgumentError("data was received before the push was opened"));
    }
    return TurnAway(event.stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "the push is not open");
  }
  ExpectMore();
  FailIf(data_.Take(config_, event, streams_, actions_));
}

void ReceiveMachine::On(const ReceiveEvent::CopyDone& event) {
  BATON_FAILPOINT("receive_machine.copied");
  if (state_ != State::kDraining) return FailIf(data_.EndCopy(event, streams_, actions_));
  data_.AbandonCopy(event, actions_);
  if (!data_.any_in_copy()) Drain();
}

void ReceiveMachine::OnCheckpoint(const internal::v1::PushCheckpoint& checkpoint) {
  BATON_FAILPOINT("receive_machine.before_checkpoint");
  ExpectMore();
  if (absl::Status status = CheckCheckpoint(config_, checkpointed_tokens_, checkpoint);
      !status.ok()) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
  }
  const int end_token = static_cast<int>(checkpoint.end_token());
  if (!data_.CoveredBefore(end_token) ||
      data_.Digest(config_, end_token, {}) != checkpoint.digest()) {
    return Fail(PushRefused::REASON_INCOMPLETE,
                absl::DataLossError("checkpoint: pages are missing or the digest differs"));
  }
  BATON_FAILPOINT("receive_machine.checkpointed");
  checkpointed_tokens_ = end_token;
  ReceiveAction::Send answer{streams_.own(), {}};
  answer.message.mutable_checkpointed()->set_end_token(checkpoint.end_token());
  actions_.emplace_back(std::move(answer));
}

void ReceiveMachine::OnCommit(const PushCommit& commit) {
  BATON_FAILPOINT("receive_machine.before_commit");
  if (absl::Status status = CheckFirstTokens(config_, commit); !status.ok()) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
  }
  const std::vector<OutputToken> first_tokens(commit.first_tokens().begin(),
                                              commit.first_tokens().end());
  if (!data_.CoveredBefore(token_count_)) {
    return Fail(PushRefused::REASON_INCOMPLETE, absl::DataLossError("commit: pages are missing"));
  }
  if (data_.Digest(config_, token_count_, first_tokens) != commit.digest()) {
    return Fail(PushRefused::REASON_INCOMPLETE, absl::DataLossError("commit: the digest differs"));
  }
  BATON_CHECK(data_.all_answered(), "what is covered is not in copy");
  BATON_FAILPOINT("receive_machine.committed");
  state_ = State::kCommitted;
  deadline_ = absl::InfiniteFuture();
  actions_.emplace_back(ReceiveAction::CommitSequence{first_tokens, exact_});
  ReceiveAction::Send committed{streams_.own(), {}};
  committed.message.mutable_committed();
  actions_.emplace_back(std::move(committed));
  streams_.End(actions_);
}

// A push that cannot show the capability is only turned away: it must not end the attempt.
// tests/planted_bugs: push_authentication
bool ReceiveMachine::Authenticate(const ReceiveEvent::ControlReceived& event, const AttemptKey& key,
                                  const std::string& capability) {
  const auto refuse = [&](PushRefused::Reason reason, const char* why) {
    TurnAway(event.stream, reason, why);
    return false;
  };
  if (!SameKey(key, config_.key)) {
    return refuse(PushRefused::REASON_UNKNOWN_ATTEMPT, "another attempt's key");
  }
  if (!SameSecret(capability, config_.capability)) {
    return refuse(PushRefused::REASON_CAPABILITY, "the capability is not this attempt's");
  }
  const std::string& pusher = config_.pusher.peer_id();
  if (config_.secure && (pusher.empty() || event.peer_id != pusher)) {
    return refuse(PushRefused::REASON_CAPABILITY, "the capability is another prefill worker's");
  }
  if (now_ >= capability_expires_) {
    return refuse(PushRefused::REASON_CAPABILITY, "the capability has expired");
  }
  return true;
}

void ReceiveMachine::OnJoin(const ReceiveEvent::ControlReceived& event) {
  const PushStreamId stream = event.stream;
  const PushJoin& join = event.message.join();
  if (!Authenticate(event, join.key(), join.capability())) return;
  if (state_ != State::kReceiving) {
    return TurnAway(stream, PushRefused::REASON_UNKNOWN_ATTEMPT,
                    "a stream joins after the open was answered and before the commit");
  }
  if (streams_.Carries(stream)) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE,
                absl::InvalidArgumentError(
                    "a stream may join a push only once, and not the push that it opened"));
  }
  if (1 + streams_.joined().size() >= static_cast<size_t>(kMaxKvStreams)) {
    return TurnAway(stream, PushRefused::REASON_OUT_OF_RANGE, "a push has at most 16 streams");
  }
  streams_.Join(stream);
}

void ReceiveMachine::On(const ReceiveEvent::Malformed& event) {
  if (streams_.Carries(event.stream) && Active()) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE, absl::InvalidArgumentError(event.detail));
  }
  TurnAway(event.stream, PushRefused::REASON_OUT_OF_RANGE, event.detail);
}

void ReceiveMachine::On(const ReceiveEvent::StreamLost& event) {
  if (streams_.Forget(event.stream) || event.stream != streams_.own()) return;
  if (Active()) {
    Fail(PushRefused::REASON_ABORTED,
         absl::UnavailableError(
             "the push from the prefill worker was cut off before it was committed"));
  }
}

void ReceiveMachine::ExpectMore() {
  // tests/planted_bugs: silent_push_goes_on
  deadline_ = std::min(now_ + config_.limits.receive_timeout, push_deadline_);
}

void ReceiveMachine::TurnAway(PushStreamId stream, PushRefused::Reason reason,
                              const std::string& detail) {
  actions_.emplace_back(Refusal(stream, reason, detail));
  actions_.emplace_back(ReceiveAction::EndStream{stream});
}

void ReceiveMachine::On(const ReceiveEvent::Cancelled& event) {
  switch (state_) {
    case State::kReserved:
    case State::kCommitted:
      state_ = State::kGone;
      deadline_ = absl::InfiniteFuture();
      actions_.emplace_back(ReceiveAction::ReleaseBlocks{});
      return;
    case State::kOpen:
    case State::kReceiving:
      resumable_ = event.reason == PushRefused::REASON_SUPERSEDED;
      return Fail(event.reason, absl::CancelledError("the attempt ended"));
    case State::kDraining:
    case State::kGone:
      return;
  }
}

void ReceiveMachine::On(const ReceiveEvent::Tick&) {
  if (now_ < deadline_) return;
  if (state_ == State::kReserved) {
    return EndReservation(absl::DeadlineExceededError("no push came for the reserved blocks"));
  }
  Fail(PushRefused::REASON_ABORTED,
       absl::UnavailableError("the push from the prefill worker made no progress"));
}

void ReceiveMachine::On(const ReceiveEvent::EventsLost&) {
  absl::Status status = absl::ResourceExhaustedError(
      "this worker's queue of KV transfer messages was full, and some were dropped");
  if (state_ == State::kReserved) return EndReservation(std::move(status));
  if (!Active()) return;
  Fail(PushRefused::REASON_OUT_OF_RANGE, std::move(status));
}

void ReceiveMachine::EndReservation(absl::Status status) {
  actions_.emplace_back(ReceiveAction::Failed{std::move(status)});
  actions_.emplace_back(ReceiveAction::ReleaseBlocks{});
  state_ = State::kGone;
  deadline_ = absl::InfiniteFuture();
}

void ReceiveMachine::FailIf(std::optional<DataReceiver::Failure> failure) {
  if (failure.has_value()) Fail(failure->reason, std::move(failure->status));
}

void ReceiveMachine::Fail(PushRefused::Reason reason, absl::Status status) {
  BATON_FAILPOINT("receive_machine.before_abort");
  actions_.emplace_back(Refusal(streams_.own(), reason, std::string(status.message())));
  streams_.End(actions_);
  actions_.emplace_back(ReceiveAction::Failed{std::move(status)});
  data_.DropWaiting(actions_);
  state_ = State::kDraining;
  deadline_ = absl::InfiniteFuture();
  // tests/planted_bugs: free_before_drain
  if (!data_.any_in_copy()) Drain();
}

void ReceiveMachine::Drain() {
  BATON_FAILPOINT("receive_machine.before_release");
  state_ = State::kGone;
  ReceiveAction::ReleaseBlocks release;
  // tests/planted_bugs: retain_beyond_the_checkpoint
  if (resumable_) release.resume_tokens = checkpointed_tokens_;
  actions_.emplace_back(release);
}

}  // namespace baton
