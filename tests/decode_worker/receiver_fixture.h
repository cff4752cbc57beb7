// A receiver with memory behind it, and the messages of a sender that holds other blocks.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/rpc/kv_blocks.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/payload_copier.h"
#include "prefill_worker/kv_buffer.h"

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
    config_ = {};
    config_.key.set_request_id_low(5);
    config_.key.set_attempt(2);
    config_.capability = "0123456789abcdef";
    config_.identity.set_architecture("llama");
    config_.shape.set_layers(2);
    config_.shape.set_kv_heads(1);
    config_.shape.set_head_dim(4);
    config_.shape.set_dtype("f16");
    config_.shape.add_wire_dtypes("f16");
    config_.shape.set_block_size(32);
    config_.layout = layout_;
    for (int i = 0; i < kTokens; ++i) config_.token_ids.push_back(i);
    config_.page_hashes = PageHashes(config_.identity, "", "", config_.token_ids);
    config_.prompt_length = kTokens;
    config_.vocab_size = 100;
    config_.limits.window_bytes = 4000;
    receiver_.emplace(config_, now_);
    actions_.clear();
    next_message_ = 1;
  }

  void Do(const KvReceiver::Event& event) {
    for (KvReceiver::Action& action : receiver_->Handle(event, now_)) actions_.push_back(action);
  }
  internal::v1::PushRequest OpenMessage() const {
    internal::v1::PushRequest request;
    auto& open = *request.mutable_open();
    *open.mutable_key() = config_.key;
    open.set_capability(config_.capability);
    *open.mutable_identity() = config_.identity;
    *open.mutable_shape() = config_.shape;
    open.set_wire_dtype("f16");
    open.set_token_count(kTokens);
    open.mutable_page_hashes()->Add(config_.page_hashes.begin(), config_.page_hashes.end());
    return request;
  }
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
    internal::v1::KvDataHeader header;
    *header.mutable_key() = config_.key;
    header.set_sequence_number(sequence_number);
    header.set_first_layer(static_cast<uint32_t>(layer));
    header.set_layer_count(static_cast<uint32_t>(layers));
    header.set_first_token(static_cast<uint32_t>(first));
    header.set_token_count(static_cast<uint32_t>(end - first));
    header.set_kv_head_count(1);
    for (int l = layer; l < layer + layers; ++l) {
      for (int token = first; token < end; token += kKvPageTokens) {
        header.add_page_crc32c(source_.PageCrc(l, token, std::min(end, token + kKvPageTokens)));
      }
    }
    return header;
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
  internal::v1::PushRequest CommitMessage() const {
    PageCrcTable crcs(2, kTokens);
    for (int layer = 0; layer < 2; ++layer) {
      for (int page = 0; page < 4; ++page) {
        crcs.At(layer, page) = source_.PageCrc(layer, page * 16, std::min(kTokens, page * 16 + 16));
      }
    }
    internal::v1::PushRequest request;
    auto& token = *request.mutable_commit()->add_first_tokens();
    token.mutable_token()->set_token_id(3);
    request.mutable_commit()->set_digest(KvDigest({.identity = config_.identity,
                                                   .token_ids = config_.token_ids,
                                                   .start_token = 0,
                                                   .end_token = kTokens,
                                                   .first_tokens = absl::MakeConstSpan(&token, 1),
                                                   .crcs = crcs}));
    return request;
  }
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
