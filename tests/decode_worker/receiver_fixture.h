// A receiver with memory behind it, and the messages of a sender that holds other blocks.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/handoff/kv_blocks.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/payload_copier.h"
#include "prefill_worker/kv_buffer.h"
#include "tests/support/push_messages.h"

namespace baton {

inline constexpr int kTokens = 50;  // pages of 16, 16, 16 and 2
inline constexpr KvReceiver::StreamId kStream = 7;

class ReceiverTest : public ::testing::Test {
 protected:
  ReceiverTest() {
    layout_ = {.layers = 2, .kv_heads = 1, .head_dim = 4, .block_size = 32};
    source_memory_.resize(layout_.block_bytes() * 2);
    for (size_t i = 0; i < source_memory_.size(); ++i) {
      source_memory_[i] = static_cast<uint8_t>(i * 37 >> 2);
    }
    source_ = {source_memory_.data(), layout_, {1, 0}};
    Restart();
  }

  void Restart() {
    target_memory_.assign(layout_.block_bytes() * 3, 0xEE);
    target_ = {target_memory_.data(), layout_, {2, 1}};
    config_ = MakeReceiverConfig(layout_, kTokens);
    config_.limits.window_bytes = 4000;
    receiver_.emplace(config_, now_);
    actions_.clear();
    next_message_ = 1;
  }

  void Do(const KvReceiver::Event& event) {
    for (KvReceiver::Action& action : receiver_->Handle(event, now_)) actions_.push_back(action);
  }
  internal::v1::PushRequest OpenMessage() const { return MakeOpen(config_); }
  void Open() { Do(KvReceiver::ControlReceived{kStream, OpenMessage()}); }
  void Receive() {
    Open();
    Do(KvReceiver::Granted{0});
  }
  internal::v1::PushRequest JoinMessage() const {
    internal::v1::PushRequest request;
    *request.mutable_join()->mutable_key() = config_.key;
    request.mutable_join()->set_capability(config_.capability);
    return request;
  }
  void Join(KvReceiver::StreamId stream) { Do(KvReceiver::ControlReceived{stream, JoinMessage()}); }
  std::vector<uint64_t> AcksOn(KvReceiver::StreamId stream) const {
    std::vector<uint64_t> acks;
    for (const auto& send : Taken<KvReceiver::Send>()) {
      if (send.stream == stream && send.message.has_ack()) {
        acks.push_back(send.message.ack().sequence_number());
      }
    }
    return acks;
  }
  internal::v1::KvDataHeader Header(int layer, int layers, int first, int end,
                                    uint64_t sequence_number) const {
    return MakeDataHeader(config_, source_, layer, layers, first, end, sequence_number);
  }
  // The message as it arrives; what the receiver asked for afterwards stays in actions_.
  uint64_t Data(const internal::v1::KvDataHeader& header, KvReceiver::StreamId stream = kStream) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(MakeKvBuffer(header, source_, [] {}).Dump(&slices).ok());
    return Arrive(std::move(slices), stream);
  }
  uint64_t Arrive(std::vector<grpc::Slice> slices, KvReceiver::StreamId stream = kStream) {
    auto message = DecodeKvData(std::move(slices));
    if (!message.ok()) {
      Do(KvReceiver::Malformed{stream, "malformed"});
      return 0;
    }
    const uint64_t id = next_message_++;
    messages_[id] = *message;
    Do(KvReceiver::DataReceived{stream, id, message->header, message->header_crc32c,
                                message->payload_bytes});
    return id;
  }
  std::vector<KvReceiver::Copy> TakeCopies() {
    auto copies = Taken<KvReceiver::Copy>();
    std::erase_if(actions_, [](const KvReceiver::Action& action) {
      return std::holds_alternative<KvReceiver::Copy>(action);
    });
    return copies;
  }
  void FinishCopies() {
    for (auto copies = TakeCopies(); !copies.empty(); copies = TakeCopies()) {
      for (const auto& copy : copies) {
        Do(CopyPayload(copy, messages_.at(copy.message_id), target_));
      }
    }
  }
  internal::v1::PushRequest CommitMessage() const { return MakeCommit(config_, source_, 0); }
  void Commit(const internal::v1::PushRequest& commit) {
    Do(KvReceiver::ControlReceived{kStream, commit});
  }

  template <typename A>
  std::vector<A> Taken() const {
    std::vector<A> taken;
    for (const KvReceiver::Action& action : actions_) {
      if (const A* a = std::get_if<A>(&action)) taken.push_back(*a);
    }
    return taken;
  }
  internal::v1::PushRefused::Reason LastRefusal() const {
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_UNSPECIFIED;
    for (const auto& send : Taken<KvReceiver::Send>()) {
      if (send.message.has_refused()) reason = send.message.refused().reason();
    }
    return reason;
  }
  size_t Acks() const {
    size_t acks = 0;
    for (const auto& send : Taken<KvReceiver::Send>()) acks += send.message.has_ack() ? 1 : 0;
    return acks;
  }
  bool HoldsTheSource() const {
    for (int layer = 0; layer < 2; ++layer) {
      for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
        for (int token = 0; token < kTokens; ++token) {
          if (!std::equal(source_.Row(layer, part, token),
                          source_.Row(layer, part, token) + layout_.row_bytes(),
                          target_.Row(layer, part, token))) {
            return false;
          }
        }
      }
    }
    return true;
  }

  absl::Time now_ = absl::UnixEpoch();
  KvLayout layout_;
  std::vector<uint8_t> source_memory_, target_memory_;
  KvBlocks source_, target_;
  KvReceiver::Config config_;
  std::optional<KvReceiver> receiver_;
  std::vector<KvReceiver::Action> actions_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_ = 1;
};

}  // namespace baton
