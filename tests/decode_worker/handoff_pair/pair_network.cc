#include "tests/decode_worker/handoff_pair/pair_network.h"

#include <utility>

#include "gtest/gtest.h"

namespace baton {
namespace {

using internal::v1::PushRequest;
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

void PairNetwork::Open(int stream, const PushRequest& first) {
  EXPECT_LT(stream, run_.options.streams);
  EXPECT_EQ(streams_.count(stream), 0u);
  streams_[stream].open = true;
  streams_[stream].to_receiver.push_back({false, first.SerializeAsString(), nullptr});
}

void PairNetwork::SendControl(const PushRequest& message, bool drops_queued) {
  if (!streams_[0].open) return;
  if (drops_queued) DropQueuedData();
  streams_[0].to_receiver.push_back({false, message.SerializeAsString(), nullptr});
}

void PairNetwork::DropQueuedData() {
  std::deque<Message> kept;
  for (Message& message : std::exchange(streams_[0].to_receiver, {})) {
    if (message.is_data) {
      message.released();
    } else {
      kept.push_back(std::move(message));
    }
  }
  streams_[0].to_receiver = std::move(kept);
}

void PairNetwork::SendData(int stream, const grpc::ByteBuffer& slices,
                           std::function<void()> released) {
  carried_.insert(stream);
  Stream& carrier = streams_.at(stream);
  if (!carrier.open) return released();
  std::deque<Message>& queue = carrier.to_receiver;
  // The slices are alive until it is delivered.
  queue.push_back({true, Flatten(slices), std::move(released), slices});
  if (queue.size() > 1 && run_.Strikes(run_.options.reorder)) {
    Message& other = queue[queue.size() - 2];
    if (other.is_data) std::swap(other, queue.back());
  }
}

void PairNetwork::EndAll() {
  for (const auto& [id, stream] : streams_) End(id);
}

void PairNetwork::Answer(PushStreamId stream, const PushResponse& answer) {
  Stream& carrier = streams_.at(AtSender(stream));
  if (carrier.open) carrier.to_sender.push_back(answer);
}

// An empty answer stands for the end.
void PairNetwork::EndAfterAnswers(PushStreamId stream) { Answer(stream, {}); }

// What comes back from the end may send on other streams, and end them.
void PairNetwork::End(int id) {
  Stream& stream = streams_.at(id);
  if (!stream.open) return;
  stream.open = false;
  for (Message& message : std::exchange(stream.to_receiver, {})) {
    if (message.is_data) message.released();
  }
  stream.to_sender.clear();
  ends_.ended(id);
  ends_.lost(AtReceiver(id));
}

void PairNetwork::CutSome() {
  const PairOptions& options = run_.options;
  for (auto& [id, stream] : streams_) {
    if (!stream.open || !run_.Strikes(id == 0 ? options.cut : options.cut_joined)) continue;
    End(id);
  }
}

std::vector<int> PairNetwork::streams() const {
  std::vector<int> ids;
  for (const auto& [id, stream] : streams_) ids.push_back(id);
  return ids;
}

void PairNetwork::DeliverToReceiver(int stream) {
  Message message = std::move(streams_[stream].to_receiver.front());
  streams_[stream].to_receiver.pop_front();
  std::vector<std::string> copies = {message.bytes};
  if (message.is_data) {
    EXPECT_EQ(Flatten(message.slices), message.bytes) << "changed under live slices";
    if (run_.Strikes(run_.options.drop)) {
      copies.clear();
    } else if (run_.Strikes(run_.options.duplicate)) {
      copies.push_back(message.bytes);
    }
    if (!copies.empty() && run_.Strikes(run_.options.corrupt)) {
      std::string& bytes = copies[run_.random() % copies.size()];
      bytes[run_.random() % bytes.size()] ^= static_cast<char>(1 << run_.random() % 8);
    }
    message.released();
  }
  for (const std::string& bytes : copies) ends_.message(AtReceiver(stream), bytes);
}

void PairNetwork::DeliverToSender(int stream) {
  const PushResponse message = std::move(streams_[stream].to_sender.front());
  streams_[stream].to_sender.pop_front();
  if (message.event_case() == PushResponse::EVENT_NOT_SET) return End(stream);
  ends_.answer(stream, message);
}

}  // namespace baton
