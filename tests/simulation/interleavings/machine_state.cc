#include "tests/simulation/interleavings/machine_state.h"

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
      sender.data_.start_token(), sender.data_.window_bytes_, sender.data_.next_sequence_number_);
  for (const ComputedKv::Layer& computed : sender.data_.computed_.unsent_) {
    Add(out, computed.kv.layer, computed.kv.tokens.begin, computed.kv.tokens.end);
  }
  Add(out, "checkpoints");
  for (const int end : sender.checkpoints_) Add(out, end);
  AddCrcs(sender.data_.computed_.crcs(), out);
  uint64_t first_place = UINT64_MAX;
  for (const auto& [number, message] : sender.data_.window_.messages()) {
    first_place = std::min(first_place, message.place);
  }
  for (const auto& [number, message] : sender.data_.window_.messages()) {
    Add(out, number, message.place - first_place, message.payload_bytes, message.resends,
        message.stream, message.repeats, Nanos(message.sent), message.flight_bytes,
        message.overtaken);
    out += message.header.SerializeAsString();
  }
  Add(out, Nanos(sender.data_.window_.NextSilence(sender.config_.limits.ack_timeout)),
      Nanos(sender.data_.window_.NextMissed()), sender.data_.window_.flight_limit_bytes());
  for (const auto& [number, answers] : sender.data_.window_.repeated_) Add(out, number, answers);
  for (const int stream : sender.streams_) {
    Add(out, stream, sender.data_.window_.Carries(stream) ? "carries" : "idle");
  }
  Add(out, !sender.first_tokens_.empty(), sender.abort_status_.ToString(), sender.cancelled_,
      sender.finished_, sender.released_, sender.data_.live_messages_,
      !sender.data_.meter_.all_computed());
}

void MachineState::Append(const ReceiveMachine& receiver, std::string& out) {
  const auto add_message = [&out](const HeldMessage& message) {
    Add(out, message.stream, message.message_id, message.payload_bytes, ",", message.window_bytes);
    out += message.header.SerializeAsString();
  };
  Add(out, "R", static_cast<int>(receiver.state_), Nanos(receiver.deadline_),
      receiver.streams_.own(), receiver.exact_, receiver.data_.pages_.carried().start_token(),
      receiver.checkpointed_tokens_, receiver.resumable_, Nanos(receiver.push_deadline_),
      receiver.data_.held_.bytes(), receiver.data_.held_.next_copy_id_);
  for (const PushStreamId stream : receiver.streams_.joined()) Add(out, stream);
  for (const ReceivedPages::Page page : receiver.data_.pages_.pages_)
    Add(out, static_cast<int>(page));
  AddCrcs(receiver.data_.pages_.crcs(), out);
  for (const auto& [id, copy] : receiver.data_.held_.copies_) {
    Add(out, "copy", id);
    add_message(copy.message);
    for (const LayerTokens& range : copy.ranges) {
      Add(out, range.layer, range.tokens.begin, range.tokens.end);
    }
  }
  Add(out, "waiting");
  for (const HeldMessage& message : receiver.data_.held_.waiting_) add_message(message);
  for (const auto& [number, refusals] : receiver.data_.refusals_) Add(out, number, refusals);
}

}  // namespace baton
