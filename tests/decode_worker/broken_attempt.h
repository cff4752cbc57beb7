// A push by hand that breaks, to a real decode worker.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/crc32c.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/status.h"
#include "tests/common/engine/test_sequences.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {

inline bool Eventually(const std::function<bool()>& holds) {
  for (const absl::Time end = SteadyNow() + absl::Seconds(20); SteadyNow() < end;) {
    if (holds()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

// An attempt whose decode call is real and whose push is made by hand, up to where it breaks. The
// KV is what the prefill worker computed.
class BrokenAttempt {
 public:
  BrokenAttempt(TestWorker& prefill, TestWorker& decode, const internal::v1::SequenceSpec& spec)
      : prefill_(prefill),
        decode_(decode),
        spec_(spec),
        tokens_(spec.token_ids().begin(), spec.token_ids().end()),
        crcs_(prefill.engine().cache().layout().layers, static_cast<int>(tokens_.size())) {
    Compute();
    call_ = decode.decode().Decode(&decode_context_);
    internal::v1::DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call_->Write(request);
    EXPECT_TRUE(call_->Read(&response_) && response_.has_accepted());
  }
  ~BrokenAttempt() { prefill_.engine().Release(sequence_); }

  // start_token of the answer.
  int Open() {
    stub_ = internal::v1::KvTransferService::NewStub(decode_.channel());
    push_ = stub_->Push(&push_context_);
    internal::v1::PushRequest request;
    auto& open = *request.mutable_open();
    *open.mutable_key() = spec_.key();
    open.set_capability(spec_.capability());
    *open.mutable_identity() = prefill_.identity();
    *open.mutable_shape() = prefill_.shape();
    open.set_wire_dtype(prefill_.shape().dtype());
    open.set_token_count(static_cast<uint32_t>(tokens_.size()));
    const auto hashes = PageHashes(prefill_.identity(), "", decode_.shape().numerics(), tokens_);
    open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
    const internal::v1::PushResponse answer = Ask(request);
    EXPECT_TRUE(answer.has_opened()) << answer.ShortDebugString();
    start_ = static_cast<int>(answer.opened().start_token());
    return start_;
  }

  void SendPages(int first, int end) {
    for (int layer = 0; layer < crcs_.layers(); ++layer) {
      for (int token = first; token < end; token += kKvPageTokens) SendPage(layer, token);
    }
  }

  void Checkpoint(int end) {
    internal::v1::PushRequest request;
    request.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end));
    request.mutable_checkpoint()->set_digest(KvDigest({.identity = prefill_.identity(),
                                                       .token_ids = tokens_,
                                                       .start_token = start_,
                                                       .end_token = end,
                                                       .first_tokens = {},
                                                       .crcs = crcs_}));
    EXPECT_TRUE(Ask(request).has_checkpointed());
  }

  // The push is cut. Returns the reason for which the decode call ended.
  std::string Cut() {
    push_context_.TryCancel();
    return Ended();
  }
  void CancelDecode() { decode_context_.TryCancel(); }
  // Waits for the decode call's end, and until its blocks are back.
  std::string Ended() {
    while (call_->Read(&response_)) {
    }
    const absl::Status status = FromGrpcStatus(call_->Finish());
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(Eventually([this] { return decode_.engine().Stats().used_blocks == 0; }));
    return ErrorReason(status);
  }

 private:
  void Compute() {
    SequenceRequest request;
    request.mode = SequenceRequest::Mode::kPrefillOnly;
    request.token_ids = tokens_;
    request.prompt_length = static_cast<int>(spec_.prompt_length());
    request.sampling.max_tokens = 10;
    absl::Notification computed;
    blocks_.base = prefill_.engine().cache().Block(0);
    blocks_.layout = prefill_.engine().cache().layout();
    request.on_event = [&](const SequenceEvent& event) {
      if (const auto* layer = std::get_if<LayerComputed>(&event)) {
        blocks_.block_table.assign(layer->block_table.begin(), layer->block_table.end());
      }
      if (std::holds_alternative<SequenceFinished>(event)) computed.Notify();
    };
    sequence_ = prefill_.engine().NextId();
    EXPECT_TRUE(prefill_.engine().Submit(sequence_, TestSequences::Trust(std::move(request))).ok());
    computed.WaitForNotification();
  }

  internal::v1::PushResponse Ask(const internal::v1::PushRequest& request) {
    internal::v1::PushResponse answer;
    EXPECT_TRUE(push_->Write(request));
    EXPECT_TRUE(push_->Read(&answer));
    return answer;
  }

  void SendPage(int layer, int first) {
    const int end = std::min(first + kKvPageTokens, static_cast<int>(tokens_.size()));
    crcs_.At(layer, first / kKvPageTokens) = blocks_.PageCrc(layer, {first, end});
    internal::v1::PushRequest request;
    internal::v1::KvDataHeader& header = *request.mutable_data()->mutable_header();
    *header.mutable_key() = spec_.key();
    header.set_sequence_number(++sent_);
    header.set_first_layer(static_cast<uint32_t>(layer));
    header.set_layer_count(1);
    header.set_first_token(static_cast<uint32_t>(first));
    header.set_token_count(static_cast<uint32_t>(end - first));
    header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
    header.set_kv_head_count(static_cast<uint32_t>(blocks_.layout.kv_heads));
    header.add_page_crc32c(crcs_.At(layer, first / kKvPageTokens));
    const std::string encoded = header.SerializeAsString();
    request.mutable_data()->set_header_crc32c(Crc32c(encoded.data(), encoded.size()));
    for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
      blocks_.ForEachByteRange(layer, part, {first, end}, [&](uint8_t* bytes, size_t size) {
        request.mutable_data()->mutable_payload()->append(reinterpret_cast<char*>(bytes), size);
      });
    }
    const internal::v1::PushResponse answer = Ask(request);
    EXPECT_TRUE(answer.has_ack()) << answer.ShortDebugString();
  }

  TestWorker& prefill_;
  TestWorker& decode_;
  const internal::v1::SequenceSpec spec_;
  const std::vector<int32_t> tokens_;
  PageCrcTable crcs_;
  KvBlocks blocks_;
  SequenceId sequence_ = 0;
  grpc::ClientContext decode_context_, push_context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<internal::v1::DecodeRequest, internal::v1::DecodeResponse>>
      call_;
  internal::v1::DecodeResponse response_;
  std::unique_ptr<internal::v1::KvTransferService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<internal::v1::PushRequest, internal::v1::PushResponse>>
      push_;
  int start_ = 0;
  uint64_t sent_ = 0;
};

}  // namespace baton
