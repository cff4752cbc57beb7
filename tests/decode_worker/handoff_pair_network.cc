// The network between the two: streams that keep their order, until something happens to them.
#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

#include "prefill_worker/kv_buffer.h"
#include "tests/decode_worker/handoff_pair.h"

namespace baton {
namespace {

using internal::v1::PushResponse;

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

void HandoffPair::DropQueuedData() {
  std::deque<ToReceiver> kept;
  for (ToReceiver& message : std::exchange(streams_[0].to_receiver, {})) {
    if (message.is_data) {
      message.released();
    } else {
      kept.push_back(std::move(message));
    }
  }
  streams_[0].to_receiver = std::move(kept);
}

void HandoffPair::SendData(const SendAction::SendData& data) {
  EXPECT_LE(data.payload_bytes, options_.max_payload_bytes);
  ++slices_alive_;
  carried_.insert(data.stream);
  sent_headers_[data.header.sequence_number()] = data.header;
  const auto released = [this, number = data.header.sequence_number()] {
    --slices_alive_;
    if (stager_.has_value()) stager_->Released(number);
    Deliver(SendEvent::SlicesReleased{});
  };
  const grpc::ByteBuffer slices = stager_.has_value()
                                      ? MakeKvBuffer(data.header, stager_->Send(data.header), [] {})
                                      : MakeKvBuffer(data.header, sender_blocks_, [] {});
  Stream& stream = streams_.at(data.stream);
  if (!stream.open) return released();
  std::deque<ToReceiver>& queue = stream.to_receiver;
  // The slices are alive until it is delivered.
  queue.push_back({true, Flatten(slices), released, slices});
  if (queue.size() > 1 && Chance(options_.reorder)) {
    ++faults_;
    ToReceiver& other = queue[queue.size() - 2];
    if (other.is_data) std::swap(other, queue.back());
  }
}

void HandoffPair::DeliverToReceiver(int stream) {
  const PushStreamId id_there = AtReceiver(stream);
  ToReceiver message = std::move(streams_[stream].to_receiver.front());
  streams_[stream].to_receiver.pop_front();
  std::vector<std::string> copies = {message.bytes};
  if (message.is_data) {
    EXPECT_EQ(Flatten(message.slices), message.bytes) << "changed under live slices";
    if (Chance(options_.drop)) {
      ++faults_;
      copies.clear();
    } else if (Chance(options_.duplicate)) {
      ++faults_;
      copies.push_back(message.bytes);
    }
    if (!copies.empty() && Chance(options_.corrupt)) {
      ++faults_;
      std::string& bytes = copies[random_() % copies.size()];
      bytes[random_() % bytes.size()] ^= static_cast<char>(1 << random_() % 8);
    }
    message.released();
  }
  for (const std::string& bytes : copies) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = std::min<size_t>(bytes.size() - at, 1 + random_() % 700);
      slices.emplace_back(bytes.data() + at, count);
      at += count;
    }
    if (!IsKvData(slices)) {
      ReceiveEvent::ControlReceived control{id_there, {}};
      if (control.message.ParseFromString(bytes)) {
        Deliver(control);
      } else {
        Deliver(ReceiveEvent::Malformed{id_there, "not a message"});
      }
      continue;
    }
    absl::StatusOr<KvDataMessage> data = DecodeKvData(std::move(slices));
    if (!data.ok()) {
      Deliver(ReceiveEvent::Malformed{id_there, std::string(data.status().message())});
      continue;
    }
    const uint64_t id = next_message_id_++;
    const ReceiveEvent::DataReceived received{id_there, id, data->header, data->header_crc32c,
                                              data->payload_bytes};
    messages_.emplace(id, *std::move(data));
    Deliver(received);
  }
}

void HandoffPair::DeliverToSender(int stream) {
  const PushResponse message = std::move(streams_[stream].to_sender.front());
  streams_[stream].to_sender.pop_front();
  if (message.event_case() == PushResponse::EVENT_NOT_SET) return EndStream(stream);
  Deliver(SendEvent::Response{message, stream});
}

// What comes back from the end may send on other streams, and end them.
void HandoffPair::EndStream(int id) {
  Stream& stream = streams_.at(id);
  if (!stream.open) return;
  stream.open = false;
  for (ToReceiver& message : std::exchange(stream.to_receiver, {})) {
    if (message.is_data) message.released();
  }
  stream.to_sender.clear();
  Deliver(SendEvent::StreamEnded{absl::UnavailableError("stream ended"), id});
  Deliver(ReceiveEvent::StreamLost{AtReceiver(id)});
}

void HandoffPair::FinishOneCopy() {
  const size_t index = random_() % copies_.size();
  const ReceiveAction::Copy copy = copies_[index];
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  const ReceiveEvent::CopyDone done =
      CopyPayload(copy, messages_.at(copy.message_id), receiver_blocks_);
  CheckCopyDone(copy);
  Deliver(done);
}

void HandoffPair::CutStreams() {
  for (auto& [id, stream] : streams_) {
    if (!stream.open || !Chance(id == 0 ? options_.cut : options_.cut_joined)) continue;
    ++faults_;
    EndStream(id);
  }
}

}  // namespace baton
