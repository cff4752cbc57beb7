#include "prefill_worker/data_sender.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/handoff/kv_wire_type.h"

namespace baton {
namespace {

using internal::v1::KvDataHeader;

constexpr int kMaxResends = 3;

size_t TokenBytes(const SendConfig& config) {
  const absl::StatusOr<KvType> type = KvTypeFromName(config.open.wire_dtype());
  BATON_CHECK(type.ok(), "a push opens with a wire type that it knows");
  return 2 * KvWireFormat(config.layout, *type).row_bytes();
}

}  // namespace

DataSender::DataSender(const SendConfig& config)
    : key_(config.open.key()),
      max_payload_bytes_(config.limits.max_payload_bytes),
      token_bytes_(TokenBytes(config)),
      computed_(config.layout, static_cast<int>(config.token_ids.size()), token_bytes_,
                config.limits.min_payload_bytes) {}

int DataSender::Open(int start_token, int most_streams) {
  computed_.SetStart(start_token);
  meter_.Saved(computed_.carried().held() * token_bytes_);
  // A short prompt is not worth another call.
  const size_t messages = computed_.carried().carried() * token_bytes_ / max_payload_bytes_;
  const int count =
      static_cast<int>(std::clamp<size_t>(messages, 1, static_cast<size_t>(most_streams)));
  window_.OpenStreams(count);
  return count;
}

void DataSender::Pump(absl::Time now, Actions& actions) {
  while (const std::optional<uint64_t> missed = window_.Missed(now)) Repeat(*missed, now, actions);
  while (SendNext(now, actions)) {
  }
}

// Three messages fit into the flight limit, so that some are under way while another is
// acknowledged.
size_t DataSender::PayloadLimit() const {
  const size_t third_of_flight = window_.flight_limit_bytes() / 3;
  return std::min(
      {max_payload_bytes_, size_t{window_bytes_}, std::max(third_of_flight, page_bytes())});
}

// Returns false when there is nothing to send or it has to wait.
// tests/planted_bugs: send_limits
bool DataSender::SendNext(absl::Time now, Actions& actions) {
  const std::optional<ComputedKv::Piece> next = computed_.Next(PayloadLimit());
  if (!next.has_value()) return false;
  const uint64_t flight = window_.bytes() + next->payload_bytes;
  if (flight > window_bytes_) return false;
  if (flight > window_.flight_limit_bytes() && !window_.empty()) return false;

  BATON_FAILPOINT("data_sender.before_data");
  KvDataHeader header;
  *header.mutable_key() = key_;
  header.set_sequence_number(next_sequence_number_++);
  computed_.Describe(*next, header);
  computed_.Take(*next);
  meter_.Sent(header, next->payload_bytes, now);
  window_.Add(header, next->payload_bytes, now);
  Send(*window_.Find(header.sequence_number()), actions);
  return true;
}

bool DataSender::Acknowledge(uint64_t sequence_number, int stream, bool repeat, absl::Time now,
                             Actions& actions) {
  switch (window_.Acknowledge(sequence_number, stream, now)) {
    case SendWindow::Answer::kRepeated:
      return false;
    case SendWindow::Answer::kUnknown:
      // It was meant for some message of the stream, most likely for the oldest one. If it was
      // meant for another, that one is missed later.
      if (const auto oldest = window_.Oldest(stream); repeat && oldest.has_value()) {
        // tests/planted_bugs: damaged_ack_ignored
        Repeat(*oldest, now, actions);
      }
      return false;
    case SendWindow::Answer::kAcknowledged:
      BATON_FAILPOINT("data_sender.acknowledged");
      meter_.Acknowledged(sequence_number, now);
      return true;
  }
  return false;
}

bool DataSender::Resend(uint64_t sequence_number, absl::Time now, Actions& actions) {
  if (++window_.Find(sequence_number)->resends > kMaxResends) return false;
  Move(sequence_number, now, actions);
  return true;
}

void DataSender::LoseStream(int stream, bool resend, absl::Time now, Actions& actions) {
  if (!window_.Carries(stream)) return;
  const std::vector<uint64_t> left = window_.CloseStream(stream);
  if (!resend) return;
  // tests/planted_bugs: lost_stream_forgets_its_messages
  for (const uint64_t sequence_number : left) Move(sequence_number, now, actions);
}

void DataSender::CloseJoinedStreams(Actions& actions) {
  for (int stream = 1; stream < window_.stream_count(); ++stream) {
    if (!window_.Carries(stream)) continue;
    window_.CloseStream(stream);
    actions.emplace_back(SendAction::CancelStream{stream});
  }
}

// Sends the message once more on its stream.
void DataSender::Repeat(uint64_t sequence_number, absl::Time now, Actions& actions) {
  window_.Repeat(sequence_number, now);
  SendOnceMore(sequence_number, actions);
}

// Sends the message once more on the stream with the fewest unacknowledged bytes.
void DataSender::Move(uint64_t sequence_number, absl::Time now, Actions& actions) {
  window_.Move(sequence_number, now);
  SendOnceMore(sequence_number, actions);
}

// The slices of the first sending may still be alive.
void DataSender::SendOnceMore(uint64_t sequence_number, Actions& actions) {
  const SendWindow::Message& message = *window_.Find(sequence_number);
  meter_.SentAgain(message.payload_bytes);
  Send(message, actions);
}

void DataSender::Send(const SendWindow::Message& message, Actions& actions) {
  ++live_messages_;
  actions.emplace_back(SendAction::SendData{message.header, message.payload_bytes, message.stream});
}

absl::Time DataSender::NextDeadline(absl::Duration timeout) const {
  return std::min(window_.NextMissed(), window_.NextSilence(timeout));
}

void DataSender::Released(bool intact) {
  BATON_CHECK(live_messages_ > 0, "each message is released once");
  --live_messages_;
  if (!intact) meter_.StaleMessage();
}

void DataSender::Stop() {
  computed_.Clear();
  window_.Clear();
}

bool DataSender::AcknowledgedBefore(int end_token) const {
  if (!computed_.SentBefore(end_token)) return false;
  for (const auto& [sequence_number, message] : window_.messages()) {
    // tests/planted_bugs: commit_before_the_last_ack
    if (static_cast<int>(message.header.first_token()) < end_token) return false;
  }
  return true;
}

std::string DataSender::Digest(const SendConfig& config, int end_token,
                               absl::Span<const internal::v1::OutputToken> first_tokens) {
  return digester_.Digest({.identity = config.open.identity(),
                           .token_ids = config.token_ids,
                           .start_token = start_token(),
                           .end_token = end_token,
                           .first_tokens = first_tokens,
                           .crcs = computed_.crcs(),
                           .layer_begins = computed_.carried().layer_begins()});
}

}  // namespace baton
