// A push that breaks, and the next attempt at its request, between real workers on loopback: what
// arrived is not sent again, and serves nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/crc32c.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_digest.h"
#include "common/rpc/status.h"
#include "tests/common/engine/test_sequences.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::KvDataHeader;
using internal::v1::PushRequest;
using internal::v1::PushResponse;
using internal::v1::SequenceSpec;

constexpr int kPromptTokens = 200;

std::vector<int32_t> Prompt(uint32_t seed, int tokens = kPromptTokens) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  return ids;
}

SequenceSpec SpecOf(const std::vector<int32_t>& tokens, uint64_t request_id, uint32_t attempt,
                    uint32_t prompt_length = kPromptTokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 10;
  sampling.ignore_eos = true;
  sampling.logprobs = 2;
  SequenceSpec spec = MakeSpec(tokens, sampling, request_id, attempt);
  spec.set_prompt_length(prompt_length);
  return spec;
}

TestWorker::Options WithBlocks(int block_size, int num_kv_blocks = 128) {
  TestWorker::Options options;
  options.block_size = block_size;
  options.num_kv_blocks = num_kv_blocks;
  return options;
}

bool Eventually(const std::function<bool()>& holds) {
  for (const absl::Time end = SteadyNow() + absl::Seconds(20); SteadyNow() < end;) {
    if (holds()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

void ExpectSameTokens(const HandoffResult& a, const HandoffResult& b, size_t first_of_b = 0) {
  ASSERT_TRUE(a.decode_status.ok()) << a.decode_status.error_message();
  ASSERT_EQ(a.tokens.size() + first_of_b, b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[first_of_b + i].SerializeAsString());
  }
}

// An attempt whose decode call is real and whose push is made by hand, up to where it breaks. The
// KV is what the prefill worker computed.
class BrokenAttempt {
 public:
  BrokenAttempt(TestWorker& prefill, TestWorker& decode, const SequenceSpec& spec)
      : prefill_(prefill),
        decode_(decode),
        spec_(spec),
        tokens_(spec.token_ids().begin(), spec.token_ids().end()),
        crcs_(prefill.engine().cache().layout().layers, static_cast<int>(tokens_.size())) {
    Compute();
    call_ = decode.decode().Decode(&decode_context_);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call_->Write(request);
    EXPECT_TRUE(call_->Read(&response_) && response_.has_accepted());
  }
  ~BrokenAttempt() { prefill_.engine().Release(sequence_); }

  // start_token of the answer.
  int Open() {
    stub_ = internal::v1::KvTransferService::NewStub(decode_.channel());
    push_ = stub_->Push(&push_context_);
    PushRequest request;
    auto& open = *request.mutable_open();
    *open.mutable_key() = spec_.key();
    open.set_capability(spec_.capability());
    *open.mutable_identity() = prefill_.identity();
    *open.mutable_shape() = prefill_.shape();
    open.set_wire_dtype(prefill_.shape().dtype());
    open.set_token_count(static_cast<uint32_t>(tokens_.size()));
    const auto hashes = PageHashes(prefill_.identity(), "", decode_.shape().numerics(), tokens_);
    open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
    const PushResponse answer = Ask(request);
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
    PushRequest request;
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

  PushResponse Ask(const PushRequest& request) {
    PushResponse answer;
    EXPECT_TRUE(push_->Write(request));
    EXPECT_TRUE(push_->Read(&answer));
    return answer;
  }

  void SendPage(int layer, int first) {
    const int end = std::min(first + kKvPageTokens, static_cast<int>(tokens_.size()));
    crcs_.At(layer, first / kKvPageTokens) = blocks_.PageCrc(layer, {first, end});
    PushRequest request;
    KvDataHeader& header = *request.mutable_data()->mutable_header();
    *header.mutable_key() = spec_.key();
    header.set_sequence_number(++sent_);
    header.set_first_layer(static_cast<uint32_t>(layer));
    header.set_layer_count(1);
    header.set_first_token(static_cast<uint32_t>(first));
    header.set_token_count(static_cast<uint32_t>(end - first));
    header.set_kv_head_count(static_cast<uint32_t>(blocks_.layout.kv_heads));
    header.add_page_crc32c(crcs_.At(layer, first / kKvPageTokens));
    const std::string encoded = header.SerializeAsString();
    request.mutable_data()->set_header_crc32c(Crc32c(encoded.data(), encoded.size()));
    for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
      blocks_.ForEachByteRange(layer, part, {first, end}, [&](uint8_t* bytes, size_t size) {
        request.mutable_data()->mutable_payload()->append(reinterpret_cast<char*>(bytes), size);
      });
    }
    const PushResponse answer = Ask(request);
    EXPECT_TRUE(answer.has_ack()) << answer.ShortDebugString();
  }

  TestWorker& prefill_;
  TestWorker& decode_;
  const SequenceSpec spec_;
  const std::vector<int32_t> tokens_;
  PageCrcTable crcs_;
  KvBlocks blocks_;
  SequenceId sequence_ = 0;
  grpc::ClientContext decode_context_, push_context_;
  std::unique_ptr<grpc::ClientReaderWriter<DecodeRequest, DecodeResponse>> call_;
  DecodeResponse response_;
  std::unique_ptr<internal::v1::KvTransferService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<PushRequest, PushResponse>> push_;
  int start_ = 0;
  uint64_t sent_ = 0;
};

// The tokens' KV on the wire.
uint64_t Bytes(TestWorker& worker, int tokens) {
  return worker.engine().cache().layout().bytes_per_token() * static_cast<uint64_t>(tokens);
}

// The first attempt at a request, broken when 64 tokens were checkpointed and 128 received.
void BreakAfter64(TestWorker& prefill, TestWorker& decode, const std::vector<int32_t>& prompt,
                  uint64_t request_id = 1) {
  BrokenAttempt broken(prefill, decode, SpecOf(prompt, request_id, 1));
  EXPECT_EQ(broken.Open(), 0);
  broken.SendPages(0, 64);
  broken.Checkpoint(64);
  broken.SendPages(64, 128);
  EXPECT_EQ(broken.Cut(), kReasonKvTransferFailed);
}

class ResumedHandoff : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(ResumedHandoff, TheNextAttemptSendsOnlyThePagesThatAreMissing) {
  TestWorker prefill(WithBlocks(GetParam().first));
  TestWorker decode(WithBlocks(GetParam().second));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(1);
  BreakAfter64(prefill, decode, prompt);
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 64));
  EXPECT_EQ(second.prefill_finished.bytes_sent(), Bytes(prefill, kPromptTokens - 64));
  EXPECT_EQ(second.prefill_finished.bytes_resent(), 0u);
  EXPECT_TRUE(second.finished.exact());
  ExpectSameTokens(second, RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST_P(ResumedHandoff, AnAttemptThatAHigherOneEndsLeavesItsPagesToIt) {
  TestWorker prefill(WithBlocks(GetParam().first));
  TestWorker decode(WithBlocks(GetParam().second));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(2);
  BrokenAttempt first(prefill, decode, SpecOf(prompt, 1, 1));
  EXPECT_EQ(first.Open(), 0);
  first.SendPages(0, 128);
  first.Checkpoint(128);
  {
    BrokenAttempt second(prefill, decode, SpecOf(prompt, 1, 2));
    EXPECT_EQ(first.Ended(), kReasonSuperseded);
    EXPECT_EQ(second.Open(), 128);
    second.SendPages(128, 176);
    EXPECT_EQ(second.Cut(), kReasonKvTransferFailed) << "what it was left is left again";
  }
  const HandoffResult third = RunHandoff(prefill, decode, SpecOf(prompt, 1, 3));
  EXPECT_EQ(third.prefill_finished.bytes_saved(), Bytes(prefill, 128));
  ExpectSameTokens(third, RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_TRUE(decode.ComesToRest());
}
INSTANTIATE_TEST_SUITE_P(BlockSizes, ResumedHandoff,
                         ::testing::Values(std::pair(16, 16), std::pair(16, 48),
                                           std::pair(32, 128)));

TEST(ResumedHandoffTest, TheTokensOfTheNextAttemptGoOnFromThoseOfTheOneBefore) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(3);
  const HandoffResult expected = RunLocally(local, SpecOf(prompt, 1, 1));
  BreakAfter64(prefill, decode, prompt);
  std::vector<int32_t> longer = prompt;
  for (size_t i = 0; i < 3; ++i) {
    longer.push_back(static_cast<int32_t>(expected.tokens[i].token().token_id()));
  }
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(longer, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 64));
  ExpectSameTokens(second, expected, 3);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(ResumedHandoffTest, OtherTokensGetOnlyThePagesBeforeTheyDiffer) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  TestWorker local(WithBlocks(16));
  std::vector<int32_t> prompt = Prompt(4);
  BreakAfter64(prefill, decode, prompt);
  prompt[20] ^= 1;
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 16));
  ExpectSameTokens(second, RunLocally(local, SpecOf(prompt, 1, 1)));
}

TEST(ResumedHandoffTest, NobodyElseGetsWhatABrokenAttemptLeft) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(5);
  BreakAfter64(prefill, decode, prompt);
  const HandoffResult other = RunHandoff(prefill, decode, SpecOf(prompt, 2, 1));
  EXPECT_EQ(other.prefill_finished.bytes_saved(), 0u);
  SequenceSpec other_choice = SpecOf(Prompt(6), 3, 2);
  BreakAfter64(prefill, decode, Prompt(6), 3);
  other_choice.mutable_key()->set_choice(1);
  EXPECT_EQ(RunHandoff(prefill, decode, other_choice).prefill_finished.bytes_saved(), 0u);
}

TEST(ResumedHandoffTest, WhoeverNeedsTheBlocksGetsThemAtOnce) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16, 16));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(7);
  BreakAfter64(prefill, decode, prompt);
  EXPECT_EQ(decode.engine().Stats().free_blocks, 16);
  EXPECT_EQ(decode.engine().Stats().cached_blocks, 4);
  const HandoffResult other = RunHandoff(prefill, decode, SpecOf(Prompt(8, 240), 2, 1, 240));
  EXPECT_TRUE(other.decode_status.ok()) << other.decode_status.error_message();
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), 0u);
  ExpectSameTokens(second, RunLocally(local, SpecOf(prompt, 1, 1)));
}

TEST(ResumedHandoffTest, WhatNobodyComesForEndsByTimeAlone) {
  TestWorker prefill(WithBlocks(16));
  TestWorker::Options options = WithBlocks(16);
  options.resume_timeout = absl::Milliseconds(400);
  TestWorker decode(options);
  const std::vector<int32_t> prompt = Prompt(9);
  BreakAfter64(prefill, decode, prompt);
  EXPECT_TRUE(Eventually([&] { return decode.engine().Stats().cached_blocks == 0; }));
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), 0u);
  EXPECT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
}

TEST(ResumedHandoffTest, ACallThatTheRouterEndsLeavesNothing) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  BrokenAttempt attempt(prefill, decode, SpecOf(Prompt(10), 1, 1));
  EXPECT_EQ(attempt.Open(), 0);
  attempt.SendPages(0, 64);
  attempt.Checkpoint(64);
  attempt.CancelDecode();
  attempt.Ended();
  EXPECT_EQ(decode.engine().Stats().cached_blocks, 0);
}

TEST(ResumedHandoffTest, APrefillOnTheDecodeWorkerGoesOnFromThePagesAndSharesThemWithNobody) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(48));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(11);
  BreakAfter64(prefill, decode, prompt);
  ExpectSameTokens(RunLocally(decode, SpecOf(prompt, 1, 2)),
                   RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 64u);
  RunLocally(decode, SpecOf(prompt, 2, 1));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 64u);
  EXPECT_TRUE(decode.ComesToRest());
}

// Two are pushed at the same time, behind blocks that they share.
TEST(ResumedHandoffTest, WhatTheDecodeWorkerHoldsIsPinnedAndNotSent) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  TestWorker local(WithBlocks(16));
  const std::vector<int32_t> prompt = Prompt(12);
  std::vector<int32_t> other = Prompt(13);
  std::copy(prompt.begin(), prompt.begin() + 100, other.begin());
  const HandoffResult first = RunHandoff(prefill, decode, SpecOf(prompt, 1, 1));
  EXPECT_EQ(first.prefill_finished.bytes_saved(), 0u);
  EXPECT_TRUE(decode.ComesToRest());
  {
    BrokenAttempt pinned(prefill, decode, SpecOf(other, 2, 1));
    EXPECT_EQ(pinned.Open(), 96);
    EXPECT_TRUE(Eventually([&] { return decode.engine().Stats().used_blocks == 7; }));
    const HandoffResult same = RunHandoff(prefill, decode, SpecOf(prompt, 3, 1));
    EXPECT_EQ(same.prefill_finished.bytes_saved(), Bytes(prefill, 192));
    EXPECT_EQ(same.prefill_finished.bytes_sent(), Bytes(prefill, 8));
    ExpectSameTokens(same, first);
    EXPECT_EQ(pinned.Cut(), kReasonKvTransferFailed);
  }
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(other, 2, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 96));
  ExpectSameTokens(second, RunLocally(local, SpecOf(other, 2, 1)));
  ExpectSameTokens(RunLocally(decode, SpecOf(prompt, 4, 1)), first);
  EXPECT_TRUE(decode.ComesToRest());
}

}  // namespace
}  // namespace baton
