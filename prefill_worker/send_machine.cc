#include "prefill_worker/send_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushRefused;

absl::Status RefusalStatus(const PushRefused& refused) {
  const std::string text =
      absl::StrCat("the decode worker refused the push (",
                   PushRefused::Reason_Name(refused.reason()), "): ", refused.detail());
  switch (refused.reason()) {
    case PushRefused::REASON_MODEL_MISMATCH:
    case PushRefused::REASON_SHAPE:
      return absl::FailedPreconditionError(text);
    case PushRefused::REASON_SUPERSEDED:
    case PushRefused::REASON_UNKNOWN_ATTEMPT:
    case PushRefused::REASON_ABORTED:
      return WithPushFault(absl::AbortedError(text), kPushRefused);
    case PushRefused::REASON_DRAINING:
      return DrainingStatus("", kStageTransfer);
    default:
      return WithPushFault(absl::UnavailableError(text), kPushRefused);
  }
}

// A longer message does not fit into one packet of the smallest usual size.
constexpr size_t kSmallMessageBytes = 1000;
// Packets that were lost for as long were not lost by chance.
constexpr absl::Duration kLostForGood = absl::Seconds(1);
constexpr char kSmallOnes[] =
    "small messages pass between the two machines and large ones do not, so compare the MTU of "
    "both and of the path between";

}  // namespace

SendMachine::SendMachine(SendConfig config) : config_(std::move(config)), data_(config_) {
  BATON_CHECK(config_.open.token_count() == config_.token_ids.size(), "one count of tokens");
  BATON_CHECK(config_.streams >= 1 && config_.streams <= kMaxKvStreams, "1 to 16 streams");
}

std::vector<SendAction::Any> SendMachine::Handle(const SendEvent::Any& event, absl::Time now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  if (Active()) {
    data_.Pump(now_, actions_);
    SendCheckpoint();
    SendCommit();
  }
  CleanUp();
  return std::exchange(actions_, {});
}

absl::Time SendMachine::NextDeadline() const {
  if (state_ == State::kGone || state_ == State::kIdle) return absl::InfiniteFuture();
  if (state_ == State::kAborting || state_ == State::kClosing) return deadline_;
  return std::min({deadline_, started_ + config_.limits.push_timeout,
                   data_.NextDeadline(config_.limits.ack_timeout)});
}

void SendMachine::On(const SendEvent::Begin&) {
  if (state_ != State::kIdle) return;
  BATON_FAILPOINT("send_machine.before_open");
  state_ = State::kOpening;
  started_ = now_;
  deadline_ = now_ + config_.limits.open_timeout;
  streams_.insert(0);
  SendAction::OpenStream open;
  *open.first.mutable_open() = config_.open;
  actions_.emplace_back(std::move(open));
}

void SendMachine::On(const SendEvent::LayerReady& event) {
  if (!finished_) data_.Add(event);
}

void SendMachine::On(const SendEvent::Flush&) { data_.Flush(); }

void SendMachine::On(const SendEvent::ChunkReady& event) {
  if (finished_) return;
  checkpoints_.push_back(event.end_token);
  if (event.end_token == static_cast<int>(config_.token_ids.size())) {
    data_.AllComputed(std::min(event.at, now_));
  }
}

void SendMachine::On(const SendEvent::FirstToken& event) {
  if (!finished_) first_tokens_.push_back(event.token);
}

void SendMachine::On(const SendEvent::Abort& event) {
  if (finished_ || state_ == State::kAborting) return;
  const bool finished = event.reason == PushAbort::REASON_FINISHED_AT_FIRST_TOKEN;
  absl::Status status = event.status;
  if (status.ok() && !finished)
    status = absl::CancelledError("the prefill ended before its commit");
  StartAbort(event.reason, std::move(status));
}

void SendMachine::On(const SendEvent::Response& event) {
  if (finished_ || !data_.Carries(event.stream)) return;
  data_.Answered(event.stream, now_);
  const bool joined = event.stream != 0;
  switch (event.message.event_case()) {
    case internal::v1::PushResponse::kOpened:
      if (!joined) return OnOpened(event.message.opened());
      break;
    case internal::v1::PushResponse::kAck:
      return OnAck(event.message.ack(), event.stream);
    case internal::v1::PushResponse::kRefused:
      return OnRefused(event.message.refused(), event.stream);
    case internal::v1::PushResponse::kCommitted:
      if (joined || state_ != State::kCommitting) break;
      BATON_FAILPOINT("send_machine.committed");
      committed_ = true;
      return Finish(absl::OkStatus());
    case internal::v1::PushResponse::kCheckpointed:
      if (!joined) return;
      break;
    default:
      break;
  }
  if (state_ == State::kAborting) return;
  StartAbort(PushAbort::REASON_FAILED,
             absl::UnavailableError("the decode worker sent an unexpected answer"));
}

void SendMachine::On(const SendEvent::StreamEnded& event) {
  streams_.erase(event.stream);
  if (finished_) return;
  if (event.stream != 0) return data_.LoseStream(event.stream, Active(), now_, actions_);
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (TakesNoWork(event.status)) return Finish(event.status);
  Finish(WhyBroken(event.status));
}

absl::Status SendMachine::WhyBroken(const absl::Status& end) const {
  std::string text = absl::StrCat("the push to the decode worker broke: ", end.message());
  const char* fault = kPushBroke;
  if (state_ == State::kOpening) {
    const size_t bytes = config_.open.ByteSizeLong();
    if (absl::IsUnavailable(end)) fault = kPushUnreachable;
    // The decode worker has seen the call, and not its first message.
    if (ErrorReason(end) == kReasonSilentStream && bytes > kSmallMessageBytes) {
      fault = kPushLargePackets;
      absl::StrAppend(&text, " (it has ", bytes, " bytes); ", kSmallOnes);
    }
  } else if (OnlySmallMessagesPass()) {
    fault = kPushLargePackets;
    absl::StrAppend(&text, "; ", WhatPassed());
  }
  return WithPushFault(absl::UnavailableError(text), fault);
}

// The open and its answer are small.
bool SendMachine::OnlySmallMessagesPass() const {
  return state_ == State::kSending && data_.none_acknowledged() &&
         data_.Report(committed_, now_).transfer >= kLostForGood;
}

std::string SendMachine::WhatPassed() const {
  return absl::StrCat("the open of ", config_.open.ByteSizeLong(), " bytes was answered, and of ",
                      data_.Report(committed_, now_).bytes_sent,
                      " bytes of KV none was acknowledged: ", kSmallOnes);
}

void SendMachine::On(const SendEvent::SlicesReleased& event) {
  data_.Released(event.intact);
  if (event.intact || finished_) return;
  absl::Status status =
      absl::InternalError("a KV block was given to another sequence while it was being sent");
  if (state_ == State::kAborting) {
    abort_status_ = std::move(status);
  } else {
    StartAbort(PushAbort::REASON_FAILED, std::move(status));
  }
}

void SendMachine::On(const SendEvent::Tick&) {
  if (state_ == State::kGone || now_ < NextDeadline()) return;
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (state_ != State::kClosing) {
    const std::optional<int> silent = data_.Silent(config_.limits.ack_timeout, now_);
    if (silent.value_or(0) > 0) {
      actions_.emplace_back(SendAction::CancelStream{*silent});
      return data_.LoseStream(*silent, Active(), now_, actions_);
    }
    const absl::Time end = std::min(deadline_, started_ + config_.limits.push_timeout);
    if (!silent.has_value() && now_ < end) return;  // only an answer is missed, which Pump handles
    const bool only_small = OnlySmallMessagesPass();
    const absl::Status status = absl::UnavailableError(
        absl::StrCat("the decode worker did not answer the push in time", only_small ? "; " : "",
                     only_small ? WhatPassed() : ""));
    return StartAbort(PushAbort::REASON_FAILED,
                      WithPushFault(status, only_small ? kPushLargePackets : kPushSilent));
  }
  if (!cancelled_) {
    cancelled_ = true;
    deadline_ = now_ + config_.limits.close_timeout;
    for (const int stream : streams_) actions_.emplace_back(SendAction::CancelStream{stream});
  } else {
    deadline_ = absl::InfiniteFuture();
    actions_.emplace_back(SendAction::DropChannel{});
  }
}

// Signs of life are sent even while data is under way: a few bytes every few seconds are not worth
// the distinction.
void SendMachine::On(const SendEvent::Alive&) {
  if (state_ != State::kSending || !takes_signs_) return;
  SendAction::SendControl alive;
  alive.message.mutable_alive();
  actions_.emplace_back(std::move(alive));
}

void SendMachine::OnOpened(const internal::v1::PushOpened& opened) {
  if (state_ == State::kAborting) return;
  const uint32_t start = opened.start_token();
  data_.SetWindow(opened.window_bytes());
  takes_signs_ = opened.takes_signs();
  if (state_ != State::kOpening || start % kKvPageTokens != 0 ||
      start >= config_.token_ids.size() || !data_.WindowHoldsAPage()) {
    return StartAbort(
        PushAbort::REASON_FAILED,
        absl::UnavailableError("the decode worker opened the push with an invalid position of the "
                               "first token or an invalid receive window"));
  }
  BATON_FAILPOINT("send_machine.opened");
  state_ = State::kSending;
  deadline_ = absl::InfiniteFuture();
  JoinStreams(data_.Open(static_cast<int>(start), config_.streams));
}

void SendMachine::JoinStreams(int count) {
  for (int stream = 1; stream < count; ++stream) {
    streams_.insert(stream);
    SendAction::OpenStream open{{}, stream};
    *open.first.mutable_join()->mutable_key() = config_.open.key();
    open.first.mutable_join()->set_capability(config_.open.capability());
    actions_.emplace_back(std::move(open));
  }
}

void SendMachine::OnAck(const internal::v1::PushAck& ack, int stream) {
  if (!data_.Acknowledge(ack.sequence_number(), stream, Active(), now_, actions_)) return;
  data_.SetWindow(ack.window_bytes());
  if (Active() && !data_.WindowHoldsAPage()) {
    StartAbort(
        PushAbort::REASON_FAILED,
        absl::UnavailableError("the decode worker's receive window is smaller than one page"));
  }
}

void SendMachine::OnRefused(const PushRefused& refused, int stream) {
  if (state_ == State::kAborting) return Finish(abort_status_);
  const uint64_t sequence_number = refused.sequence_number();
  if (Active() && refused.reason() == PushRefused::REASON_CHECKSUM &&
      data_.MaySendAgain(sequence_number)) {
    if (data_.Resend(sequence_number, now_, actions_)) return;
    return StartAbort(PushAbort::REASON_FAILED, RefusalStatus(refused));
  }
  if (stream != 0 && sequence_number == 0) {  // its join
    actions_.emplace_back(SendAction::CancelStream{stream});
    return data_.LoseStream(stream, Active(), now_, actions_);
  }
  Finish(RefusalStatus(refused));
}

void SendMachine::SendCheckpoint() {
  if (state_ != State::kSending) return;
  int end_token = 0;
  while (!checkpoints_.empty() && data_.AcknowledgedBefore(checkpoints_.front())) {
    end_token = checkpoints_.front();
    checkpoints_.pop_front();
  }
  if (end_token <= data_.start_token()) return;
  BATON_FAILPOINT("send_machine.before_checkpoint");
  SendAction::SendControl checkpoint;
  checkpoint.message.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end_token));
  checkpoint.message.mutable_checkpoint()->set_digest(data_.Digest(config_, end_token, {}));
  actions_.emplace_back(std::move(checkpoint));
}

void SendMachine::SendCommit() {
  if (state_ != State::kSending || first_tokens_.size() < static_cast<size_t>(config_.choices) ||
      !checkpoints_.empty() || !data_.all_acknowledged()) {
    return;
  }
  BATON_FAILPOINT("send_machine.before_commit");
  state_ = State::kCommitting;
  deadline_ = now_ + config_.limits.commit_timeout;
  SendAction::SendControl commit;
  commit.message.mutable_commit()->mutable_first_tokens()->Add(first_tokens_.begin(),
                                                               first_tokens_.end());
  std::string digest =
      data_.Digest(config_, static_cast<int>(config_.token_ids.size()), first_tokens_);
  BATON_FAILPOINT_BYTES("send_machine.digest", digest.data(), digest.size());
  commit.message.mutable_commit()->set_digest(std::move(digest));
  actions_.emplace_back(std::move(commit));
}

void SendMachine::StartAbort(PushAbort::Reason reason, absl::Status status) {
  BATON_FAILPOINT("send_machine.before_abort");
  if (state_ == State::kIdle) return Finish(std::move(status));
  state_ = State::kAborting;
  deadline_ = now_ + config_.limits.abort_timeout;
  abort_status_ = std::move(status);
  data_.CloseJoinedStreams(actions_);
  SendAction::SendControl abort;
  abort.drop_queued = true;
  abort.message.mutable_abort()->set_reason(reason);
  actions_.emplace_back(std::move(abort));
}

void SendMachine::Finish(absl::Status status) {
  finished_ = true;
  state_ = State::kClosing;
  if (!status.ok()) data_.CloseJoinedStreams(actions_);
  deadline_ = now_ + config_.limits.close_timeout;
  checkpoints_.clear();
  data_.Stop();
  for (const int stream : streams_) {
    if (data_.Carries(stream)) actions_.emplace_back(SendAction::HalfClose{stream});
  }
  actions_.emplace_back(SendAction::Finished{std::move(status), data_.Report(committed_, now_)});
}

void SendMachine::CleanUp() {
  // tests/planted_bugs: blocks_released_once
  if (finished_ && !released_ && !data_.slices_alive()) {
    released_ = true;
    actions_.emplace_back(SendAction::ReleaseBlocks{});
  }
  if (released_ && streams_.empty()) state_ = State::kGone;
}

}  // namespace baton
