// How SendMachine handles its streams: joining, losing, acknowledgements, sending again.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/failpoint.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "prefill_worker/send_machine.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushAck;
using internal::v1::PushRefused;

constexpr int kMaxResends = 3;

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
      return absl::AbortedError(text);
    case PushRefused::REASON_DRAINING:
      return DrainingStatus("", kStageTransfer);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace

// Opens as many streams as there are full messages to send: a short prompt is not worth another
// call.
void SendMachine::JoinStreams() {
  const size_t bytes = (config_.token_ids.size() - static_cast<size_t>(start_token_)) *
                       static_cast<size_t>(config_.layout.layers) * token_bytes_;
  const size_t messages = bytes / config_.limits.max_payload_bytes;
  const int count =
      static_cast<int>(std::clamp<size_t>(messages, 1, static_cast<size_t>(config_.streams)));
  unacknowledged_.OpenStreams(count);
  for (int stream = 1; stream < count; ++stream) {
    streams_.insert(stream);
    SendAction::OpenStream open{{}, stream};
    *open.first.mutable_join()->mutable_key() = config_.open.key();
    open.first.mutable_join()->set_capability(config_.open.capability());
    actions_.emplace_back(std::move(open));
  }
}

void SendMachine::LoseStream(int stream) {
  if (!unacknowledged_.Carries(stream)) return;
  const std::vector<uint64_t> left = unacknowledged_.CloseStream(stream);
  if (!Active()) return;
  for (const uint64_t sequence_number : left) SendAgain(sequence_number);
}

// The slices of joined streams are not needed any more, and a cancelled call gives them back
// soonest.
void SendMachine::CloseJoinedStreams() {
  for (const int stream : streams_) {
    if (stream == 0 || !unacknowledged_.Carries(stream)) continue;
    unacknowledged_.CloseStream(stream);
    actions_.emplace_back(SendAction::CancelStream{stream});
  }
}

void SendMachine::OnAck(const PushAck& ack, int stream) {
  switch (unacknowledged_.Acknowledge(ack.sequence_number(), stream, now_)) {
    case SendWindow::Answer::kRepeated:
      return;
    case SendWindow::Answer::kUnknown:
      // The acknowledgement was damaged on its way. It was meant for some message of the stream,
      // most likely for the oldest one. If it was meant for another, that one is missed later.
      if (const auto oldest = unacknowledged_.Oldest(stream); Active() && oldest.has_value()) {
        Repeat(*oldest);
      }
      return;
    case SendWindow::Answer::kAcknowledged:
      BATON_FAILPOINT("send_machine.acknowledged");
      break;
  }
  window_bytes_ = ack.window_bytes();
  if (Active() && !WindowHoldsAPage()) {
    StartAbort(PushAbort::REASON_FAILED,
               absl::UnavailableError("the decode worker's window holds no page"));
  }
}

// Sends the message once more on its stream. The slices of the first sending may still be alive,
// here and in SendAgain.
void SendMachine::Repeat(uint64_t sequence_number) {
  unacknowledged_.Repeat(sequence_number, now_);
  const SendWindow::Message& message = *unacknowledged_.Find(sequence_number);
  report_.bytes_resent += message.payload_bytes;
  ++live_messages_;
  actions_.emplace_back(
      SendAction::SendData{message.header, message.payload_bytes, message.stream});
}

void SendMachine::OnRefused(const PushRefused& refused, int stream) {
  if (state_ == State::kAborting) return Finish(abort_status_);
  if (Active() && refused.reason() == PushRefused::REASON_CHECKSUM &&
      unacknowledged_.Find(refused.sequence_number()) != nullptr) {
    return Resend(refused);
  }
  if (stream != 0 && refused.sequence_number() == 0) {  // its join
    actions_.emplace_back(SendAction::CancelStream{stream});
    return LoseStream(stream);
  }
  Finish(RefusalStatus(refused));
}

void SendMachine::Resend(const PushRefused& refused) {
  if (++unacknowledged_.Find(refused.sequence_number())->resends > kMaxResends) {
    return StartAbort(PushAbort::REASON_FAILED, RefusalStatus(refused));
  }
  SendAgain(refused.sequence_number());
}

void SendMachine::SendAgain(uint64_t sequence_number) {
  const int stream = unacknowledged_.Move(sequence_number, now_);
  const SendWindow::Message& message = *unacknowledged_.Find(sequence_number);
  report_.bytes_resent += message.payload_bytes;
  ++live_messages_;
  actions_.emplace_back(SendAction::SendData{message.header, message.payload_bytes, stream});
}

}  // namespace baton
