#include "tests/simulation/machine_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

template <typename... Parts>
void Add(std::string& out, const Parts&... parts) {
  (absl::StrAppend(&out, parts, ","), ...);
  out += ';';
}

int64_t Nanos(absl::Time time) { return absl::ToUnixNanos(time); }

void AddCrcs(const PageCrcTable& crcs, std::string& out) {
  for (int layer = 0; layer < crcs.layers(); ++layer) {
    for (int page = 0; page < crcs.pages(); ++page) Add(out, crcs.At(layer, page));
  }
}

}  // namespace

void MachineState::Append(const SendMachine& sender, std::string& out) {
  Add(out, "S", static_cast<int>(sender.state_), Nanos(sender.started_), Nanos(sender.deadline_),
      sender.start_token_, sender.window_bytes_, sender.next_sequence_number_);
  for (const SendMachine::Range& range : sender.computed_) {
    Add(out, range.layer, range.first_token, range.end_token);
  }
  Add(out, "checkpoints");
  for (const int end : sender.checkpoints_) Add(out, end);
  AddCrcs(sender.crcs_, out);
  uint64_t first_place = UINT64_MAX;
  for (const auto& [number, message] : sender.unacknowledged_.messages()) {
    first_place = std::min(first_place, message.place);
  }
  for (const auto& [number, message] : sender.unacknowledged_.messages()) {
    Add(out, number, message.place - first_place, message.payload_bytes, message.resends,
        message.stream, message.repeats, Nanos(message.sent), message.flight_bytes,
        message.overtaken);
    out += message.header.SerializeAsString();
  }
  Add(out, Nanos(sender.unacknowledged_.NextSilence(sender.config_.limits.ack_timeout)),
      Nanos(sender.unacknowledged_.NextMissed()), sender.unacknowledged_.flight_limit_bytes());
  for (const auto& [number, answers] : sender.unacknowledged_.repeated_) Add(out, number, answers);
  for (const int stream : sender.streams_) {
    Add(out, stream, sender.unacknowledged_.Carries(stream) ? "carries" : "idle");
  }
  Add(out, !sender.first_tokens_.empty(), sender.abort_status_.ToString(), sender.cancelled_,
      sender.finished_, sender.released_, sender.live_messages_,
      sender.last_computed_ == absl::InfinitePast());
}

void MachineState::Append(const ReceiveMachine& receiver, std::string& out) {
  const auto add_message = [&out](const ReceiveMachine::Message& message) {
    Add(out, message.stream, message.message_id, message.payload_bytes, ",", message.window_bytes);
    out += message.header.SerializeAsString();
  };
  Add(out, "R", static_cast<int>(receiver.state_), Nanos(receiver.deadline_), receiver.stream_,
      receiver.exact_, receiver.start_token_, receiver.checkpointed_tokens_, receiver.resumable_,
      Nanos(receiver.push_deadline_), receiver.held_bytes_, receiver.next_copy_id_);
  for (const PushStreamId stream : receiver.joined_) Add(out, stream);
  for (const ReceiveMachine::Page page : receiver.pages_) Add(out, static_cast<int>(page));
  AddCrcs(receiver.crcs_, out);
  for (const auto& [id, copy] : receiver.copies_) {
    Add(out, "copy", id);
    add_message(copy.message);
    for (const LayerTokens& range : copy.ranges) {
      Add(out, range.layer, range.first_token, range.token_count);
    }
  }
  Add(out, "waiting");
  for (const ReceiveMachine::Message& message : receiver.waiting_) add_message(message);
  for (const auto& [number, refusals] : receiver.refusals_) Add(out, number, refusals);
}

}  // namespace baton
