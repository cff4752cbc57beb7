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
#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "prefill_worker/kv_buffer.h"
#include "tests/support/push_messages.h"

namespace baton {

inline constexpr int kTokens = 50;  // pages of 16, 16, 16 and 2
inline constexpr PushStreamId kStream = 7;

class ReceiveMachineTest : public ::testing::Test {
 protected:
  ReceiveMachineTest() {
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

  void Do(const ReceiveEvent::Any& event) {
    for (ReceiveAction::Any& action : receiver_->Handle(event, now_)) actions_.push_back(action);
  }
  internal::v1::PushRequest OpenMessage() const { return MakeOpen(config_); }
  void Open() { Do(ReceiveEvent::ControlReceived{kStream, OpenMessage()}); }
  void Receive() {
    Open();
    Do(ReceiveEvent::Granted{0});
  }
  internal::v1::PushRequest JoinMessage() const {
    internal::v1::PushRequest request;
    *request.mutable_join()->mutable_key() = config_.key;
    request.mutable_join()->set_capability(config_.capability);
    return request;
  }
  void Join(PushStreamId stream) { Do(ReceiveEvent::ControlReceived{stream, JoinMessage()}); }
  std::vector<uint64_t> AcksOn(PushStreamId stream) const {
    std::vector<uint64_t> acks;
    for (const auto& send : Taken<ReceiveAction::Send>()) {
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
  uint64_t Data(const internal::v1::KvDataHeader& header, PushStreamId stream = kStream) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(MakeKvBuffer(header, source_, [] {}).Dump(&slices).ok());
    return Arrive(std::move(slices), stream);
  }
  uint64_t Arrive(std::vector<grpc::Slice> slices, PushStreamId stream = kStream) {
    auto message = DecodeKvData(std::move(slices));
    if (!message.ok()) {
      Do(ReceiveEvent::Malformed{stream, "malformed"});
      return 0;
    }
    const uint64_t id = next_message_++;
    messages_[id] = *message;
    Do(ReceiveEvent::DataReceived{stream, id, message->header, message->header_crc32c,
                                  message->payload_bytes});
    return id;
  }
  std::vector<ReceiveAction::Copy> TakeCopies() {
    auto copies = Taken<ReceiveAction::Copy>();
    std::erase_if(actions_, [](const ReceiveAction::Any& action) {
      return std::holds_alternative<ReceiveAction::Copy>(action);
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
    Do(ReceiveEvent::ControlReceived{kStream, commit});
  }

  template <typename A>
  std::vector<A> Taken() const {
    std::vector<A> taken;
    for (const ReceiveAction::Any& action : actions_) {
      if (const A* a = std::get_if<A>(&action)) taken.push_back(*a);
    }
    return taken;
  }
  internal::v1::PushRefused::Reason LastRefusal() const {
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_UNSPECIFIED;
    for (const auto& send : Taken<ReceiveAction::Send>()) {
      if (send.message.has_refused()) reason = send.message.refused().reason();
    }
    return reason;
  }
  // The end of the last checkpoint that it agreed to; 0 if there is none.
  uint32_t LastCheckpoint() const {
    uint32_t end_token = 0;
    for (const auto& send : Taken<ReceiveAction::Send>()) {
      if (send.message.has_checkpointed()) end_token = send.message.checkpointed().end_token();
    }
    return end_token;
  }
  size_t Acks() const {
    size_t acks = 0;
    for (const auto& send : Taken<ReceiveAction::Send>()) acks += send.message.has_ack() ? 1 : 0;
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
  ReceiveConfig config_;
  std::optional<ReceiveMachine> receiver_;
  std::vector<ReceiveAction::Any> actions_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_ = 1;
};

}  // namespace baton
