#include "decode_worker/data_receiver.h"

#include <utility>

#include "common/base/crc32c.h"
#include "common/base/failpoint.h"
#include "decode_worker/receive_checks.h"

namespace baton {
namespace {

using internal::v1::PushRefused;

constexpr int kMaxRefusals = 3;
constexpr size_t kMaxRefusedMessages = 1024;

}  // namespace

DataReceiver::DataReceiver(const ReceiveConfig& config)
    : layout_(config.layout),
      window_limit_bytes_(config.limits.window_bytes),
      wire_(layout_, layout_.dtype),
      pages_(layout_, static_cast<int>(config.token_ids.size())) {}

void DataReceiver::Open(KvType wire) { wire_ = KvWireFormat(layout_, wire); }

std::optional<DataReceiver::Failure> DataReceiver::Take(const ReceiveConfig& config,
                                                        const ReceiveEvent::DataReceived& event,
                                                        const PushStreams& streams,
                                                        Actions& actions) {
  const auto drop = [&] { actions.emplace_back(ReceiveAction::Drop{event.message_id}); };
  // A damaged header cannot name the message to ask for again.
  // tests/planted_bugs: header_crc_skipped
  if (Crc32c(event.header.data(), event.header.size()) != event.header_crc32c) {
    drop();
    return Failure{PushRefused::REASON_CHECKSUM,
                   absl::DataLossError("the CRC of a KvData header does not agree")};
  }
  HeldMessage message{event.stream, event.message_id, event.payload_bytes, {}, 0};
  absl::Status status = absl::InvalidArgumentError("KvData header: cannot be parsed");
  if (message.header.ParseFromString(event.header)) {
    status = CheckHeader(config, wire_, pages_.carried(), message.header, event.payload_bytes);
    if (status.ok() && held_.HoldsTheSame(message)) {
      drop();
      return std::nullopt;
    }
    if (status.ok()) message.window_bytes = WindowBytesOf(message);
    if (status.ok() && held_.bytes() + message.window_bytes > window_limit_bytes_) {
      status =
          absl::InvalidArgumentError("KvData: more unacknowledged bytes than the window allows");
    }
  }
  if (!status.ok()) {
    drop();
    return Failure{PushRefused::REASON_OUT_OF_RANGE, std::move(status)};
  }
  held_.Count(message);
  return Place(std::move(message), streams, actions);
}

// The payload bytes that a message counts for in the window. It is 0 for a message whose pages are
// all covered: the sender repeats it because it missed the answer, and it is dropped at once. It is
// 0 too for a message that a lost stream brought before: the sender's window counts it once. Only
// one message of each stream goes free in this way.
size_t DataReceiver::WindowBytesOf(const HeldMessage& message) const {
  const bool free = pages_.Covers(message.header) || held_.HeldFromOthersOnly(message);
  return free ? 0 : message.payload_bytes;
}

// Has those pages of a checked message copied that are still empty.
std::optional<DataReceiver::Failure> DataReceiver::Place(HeldMessage message,
                                                         const PushStreams& streams,
                                                         Actions& actions) {
  ReceivedPages::Plan plan = pages_.PlanFor(message.header);
  switch (plan.verdict) {
    case ReceivedPages::Verdict::kWait:
      held_.Wait(std::move(message));
      return std::nullopt;
    case ReceivedPages::Verdict::kDiffers:
      actions.emplace_back(ReceiveAction::Drop{message.message_id});
      held_.Uncount(message);
      return Failure{PushRefused::REASON_OUT_OF_RANGE,
                     absl::DataLossError("a page came twice with different bytes")};
    case ReceivedPages::Verdict::kCovered:
      actions.emplace_back(ReceiveAction::Drop{message.message_id});
      Acknowledge(message, streams, actions);
      return std::nullopt;
    case ReceivedPages::Verdict::kCopy:
      break;
  }
  pages_.BeginCopy(plan.ranges);
  BATON_FAILPOINT("data_receiver.before_copy");
  ReceiveAction::Copy copy{0, message.message_id, message.header, plan.ranges, wire_.type()};
  copy.copy_id = held_.BeginCopy({std::move(message), std::move(plan.ranges)});
  actions.emplace_back(std::move(copy));
  return std::nullopt;
}

std::optional<DataReceiver::Failure> DataReceiver::EndCopy(const ReceiveEvent::CopyDone& event,
                                                           const PushStreams& streams,
                                                           Actions& actions) {
  const HeldMessages::InCopy copy = held_.EndCopy(event.copy_id);
  actions.emplace_back(ReceiveAction::Drop{copy.message.message_id});
  const bool all_agree = pages_.EndCopy(copy.message.header, copy.ranges, event);
  std::optional<Failure> failure;
  // tests/planted_bugs: ack_for_a_failed_message
  if (!event.ok) {
    held_.Uncount(copy.message);
    failure =
        Failure{PushRefused::REASON_ABORTED, absl::InternalError("a copy into the cache failed")};
  } else if (all_agree) {
    Acknowledge(copy.message, streams, actions);
  } else {
    failure = AskAgain(copy.message, streams, actions);
  }
  // Messages that still wait are put back by Place.
  for (HeldMessage& message : held_.TakeWaiting()) {
    if (failure.has_value()) {
      actions.emplace_back(ReceiveAction::Drop{message.message_id});
    } else {
      failure = Place(std::move(message), streams, actions);
    }
  }
  return failure;
}

void DataReceiver::AbandonCopy(const ReceiveEvent::CopyDone& event, Actions& actions) {
  actions.emplace_back(ReceiveAction::Drop{held_.EndCopy(event.copy_id).message.message_id});
}

void DataReceiver::DropWaiting(Actions& actions) {
  for (const HeldMessage& message : held_.TakeWaiting()) {
    actions.emplace_back(ReceiveAction::Drop{message.message_id});
  }
}

void DataReceiver::Acknowledge(const HeldMessage& message, const PushStreams& streams,
                               Actions& actions) {
  held_.Uncount(message);
  refusals_.erase(message.header.sequence_number());
  if (!streams.Carries(message.stream)) return;
  ReceiveAction::Send ack{message.stream, {}};
  ack.message.mutable_ack()->set_sequence_number(message.header.sequence_number());
  ack.message.mutable_ack()->set_window_bytes(window_limit_bytes_);
  actions.emplace_back(std::move(ack));
}

std::optional<DataReceiver::Failure> DataReceiver::AskAgain(const HeldMessage& message,
                                                            const PushStreams& streams,
                                                            Actions& actions) {
  held_.Uncount(message);
  if (!streams.Carries(message.stream)) return std::nullopt;
  const uint64_t sequence_number = message.header.sequence_number();
  if (++refusals_[sequence_number] > kMaxRefusals || refusals_.size() > kMaxRefusedMessages) {
    return Failure{PushRefused::REASON_CHECKSUM,
                   absl::DataLossError("the CRC of a page did not agree, sent again three times")};
  }
  actions.emplace_back(Refusal(message.stream, PushRefused::REASON_CHECKSUM,
                               "the CRC of a page does not agree", sequence_number));
  return std::nullopt;
}

std::string DataReceiver::Digest(const ReceiveConfig& config, int end_token,
                                 absl::Span<const internal::v1::OutputToken> first_tokens) {
  return digester_.Digest({.identity = config.identity,
                           .token_ids = config.token_ids,
                           .start_token = pages_.carried().start_token(),
                           .end_token = end_token,
                           .first_tokens = first_tokens,
                           .crcs = pages_.crcs(),
                           .layer_begins = pages_.carried().layer_begins()});
}

}  // namespace baton
