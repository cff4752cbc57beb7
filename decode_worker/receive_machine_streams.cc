// How ReceiveMachine handles the streams of a push: authentication, joining, losing, refusing,
// ending.
#include <algorithm>

#include "decode_worker/receive_machine.h"

namespace baton {

using internal::v1::AttemptKey;
using internal::v1::KvDataHeader;
using internal::v1::PushJoin;
using internal::v1::PushRefused;

bool ReceiveMachine::SameKey(const AttemptKey& a, const AttemptKey& b) {
  return a.request_id_high() == b.request_id_high() && a.request_id_low() == b.request_id_low() &&
         a.choice() == b.choice() && a.attempt() == b.attempt();
}

// Looks at every byte whatever the outcome, so that the time it takes tells nothing of the secret.
bool ReceiveMachine::SameSecret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned>(static_cast<uint8_t>(a[i]) ^ static_cast<uint8_t>(b[i]));
  }
  return difference == 0;
}

// A push that cannot show the capability is only turned away: it must not end the attempt.
bool ReceiveMachine::Authenticate(PushStreamId stream, const AttemptKey& key,
                                  const std::string& capability) {
  if (!SameKey(key, config_.key)) {
    TurnAway(stream, PushRefused::REASON_UNKNOWN_ATTEMPT, "another attempt's key");
    return false;
  }
  if (!SameSecret(capability, config_.capability)) {
    TurnAway(stream, PushRefused::REASON_CAPABILITY, "the capability is not this attempt's");
    return false;
  }
  return true;
}

void ReceiveMachine::OnJoin(PushStreamId stream, const PushJoin& join) {
  if (!Authenticate(stream, join.key(), join.capability())) return;
  if (state_ != State::kReceiving) {
    return TurnAway(stream, PushRefused::REASON_UNKNOWN_ATTEMPT,
                    "a stream joins after the open was answered and before the commit");
  }
  if (Carries(stream)) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE,
                absl::InvalidArgumentError("a stream joins once, and not its own push"));
  }
  if (1 + joined_.size() >= static_cast<size_t>(kMaxKvStreams)) {
    return TurnAway(stream, PushRefused::REASON_OUT_OF_RANGE, "a push has at most 16 streams");
  }
  joined_.insert(stream);
}

void ReceiveMachine::On(const ReceiveEvent::Malformed& event) {
  if (Carries(event.stream) && (state_ == State::kOpen || state_ == State::kReceiving)) {
    return Fail(PushRefused::REASON_OUT_OF_RANGE, absl::InvalidArgumentError(event.detail));
  }
  TurnAway(event.stream, PushRefused::REASON_OUT_OF_RANGE, event.detail);
}

void ReceiveMachine::On(const ReceiveEvent::StreamLost& event) {
  if (joined_.erase(event.stream) > 0 || event.stream != stream_) return;
  if (state_ == State::kOpen || state_ == State::kReceiving) {
    Fail(PushRefused::REASON_ABORTED,
         absl::UnavailableError("the push from the prefill worker broke before its commit"));
  }
}

// Whether the same message came on the same stream and is not answered yet. The sender repeats a
// message when it misses the answer; the answer comes once the copy is made.
bool ReceiveMachine::HoldsTheSame(const Message& message) const {
  const auto same = [&](const Message& held) {
    return held.stream == message.stream &&
           held.header.sequence_number() == message.header.sequence_number() &&
           held.header.SerializeAsString() == message.header.SerializeAsString();
  };
  return std::any_of(waiting_.begin(), waiting_.end(), same) ||
         std::any_of(copies_.begin(), copies_.end(),
                     [&](const auto& copy) { return same(copy.second.message); });
}

bool ReceiveMachine::Covers(const KvDataHeader& header) const {
  const int first_layer = static_cast<int>(header.first_layer());
  const int first_page = static_cast<int>(header.first_token()) / kKvPageTokens;
  const int end_page = KvPages(static_cast<int>(header.first_token() + header.token_count()));
  return Covered(first_layer, first_layer + static_cast<int>(header.layer_count()), first_page,
                 end_page);
}

// The payload bytes that a message counts for in the window. It is 0 for a message whose pages are
// all covered: the sender repeats it because it missed the answer, and it is dropped at once. It is
// 0 too for a message that is also held from another stream: that stream was lost, and the message
// came again before the loss is known here or its copy is made. The sender's window counts it once.
// Only one message of each stream goes free in this way.
size_t ReceiveMachine::WindowBytesOf(const Message& message) const {
  if (Covers(message.header)) return 0;
  bool held_from_other = false;
  bool held_from_this = false;
  const auto look = [&](const Message& held) {
    if (held.header.sequence_number() != message.header.sequence_number()) return;
    (held.stream == message.stream ? held_from_this : held_from_other) = true;
  };
  for (const Message& held : waiting_) look(held);
  for (const auto& [id, copy] : copies_) look(copy.message);
  return held_from_other && !held_from_this ? 0 : message.payload_bytes;
}

void ReceiveMachine::ExpectMore() {
  deadline_ = std::min(now_ + config_.limits.receive_timeout, push_deadline_);
}

void ReceiveMachine::Refuse(PushStreamId stream, PushRefused::Reason reason,
                            const std::string& detail, uint64_t sequence_number) {
  ReceiveAction::Send refused{stream, {}};
  refused.message.mutable_refused()->set_reason(reason);
  refused.message.mutable_refused()->set_detail(detail);
  refused.message.mutable_refused()->set_sequence_number(sequence_number);
  actions_.emplace_back(std::move(refused));
}

void ReceiveMachine::TurnAway(PushStreamId stream, PushRefused::Reason reason,
                              const std::string& detail) {
  Refuse(stream, reason, detail);
  actions_.emplace_back(ReceiveAction::EndStream{stream});
}

void ReceiveMachine::EndStreams() {
  actions_.emplace_back(ReceiveAction::EndStream{stream_});
  for (const PushStreamId stream : joined_) actions_.emplace_back(ReceiveAction::EndStream{stream});
  joined_.clear();
}

}  // namespace baton
