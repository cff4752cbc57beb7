// The hand-off between real workers: engines, services and gRPC on loopback, in one process.
#include "tests/decode_worker/worker_pair.h"

#include <random>
#include <thread>

#include "gtest/gtest.h"

#include "common/rpc/status.h"
#include "tests/decode_worker/pair_requests.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::SequenceSpec;

class WorkerPair : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(WorkerPair, TokensAndLogprobsEqualARunWithoutAHandoff) {
  TestWorker prefill(WithBlocks(GetParam().first));
  TestWorker decode(WithBlocks(GetParam().second));
  TestWorker local(WithBlocks(16));
  std::vector<SequenceSpec> specs;
  uint64_t id = 1;
  for (const int length : {1, 2, 15, 16, 17, 31, 63, 64, 65, 100, 130}) {
    specs.push_back(MakeSpec(Prompt(length, static_cast<uint32_t>(length)), Greedy(12), id++));
    specs.push_back(MakeSpec(Prompt(length, static_cast<uint32_t>(length)), Seeded(9, id), id));
    ++id;
  }
  std::vector<HandoffResult> results(specs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = RunHandoff(prefill, decode, specs[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < specs.size(); ++i) {
    const HandoffResult& result = results[i];
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    ASSERT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
    EXPECT_TRUE(result.accepted && result.committed);
    EXPECT_TRUE(result.finished.exact());
    ASSERT_FALSE(result.tokens.empty());
    EXPECT_EQ(result.first_token.SerializeAsString(), result.tokens[0].SerializeAsString());
    const auto& finished = result.prefill_finished;
    const uint64_t token_bytes = prefill.engine().cache().layout().bytes_per_token();
    EXPECT_EQ(finished.bytes_sent() + finished.bytes_saved(),
              token_bytes * static_cast<uint64_t>(specs[i].token_ids_size()));
    EXPECT_EQ(finished.bytes_resent(), 0u);
    ExpectSameTokens(result, RunLocally(local, specs[i]));
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}
INSTANTIATE_TEST_SUITE_P(BlockSizes, WorkerPair,
                         ::testing::Values(std::pair(16, 16), std::pair(16, 32), std::pair(32, 16),
                                           std::pair(48, 32)));

TEST(WorkerPairTest, WhatThePrefillWorkerHasCachedIsPushedWhereTheDecodeWorkerHasItNot) {
  TestWorker prefill(WithBlocks(32));
  TestWorker decode(WithBlocks(16));
  TestWorker other(WithBlocks(16));
  const auto prompt = Prompt(120, 5);
  const HandoffResult first = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(8), 1));
  const HandoffResult second = RunHandoff(prefill, other, MakeSpec(prompt, Greedy(8), 2));
  ASSERT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
  EXPECT_EQ(first.prefill_started.cached_tokens(), 0u);
  EXPECT_EQ(second.prefill_started.cached_tokens(), 96u);
  EXPECT_EQ(second.prefill_finished.bytes_sent(), first.prefill_finished.bytes_sent());
  EXPECT_EQ(second.prefill_finished.bytes_resent(), 0u);
  EXPECT_TRUE(second.finished.exact());
  ExpectSameTokens(first, second);
  // What the decode worker received and decoded serves its own prefills.
  ExpectSameTokens(first, RunLocally(decode, MakeSpec(prompt, Greedy(8), 3)));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 112u);
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, AFirstTokenThatEndsTheRequestNeedsNoCommit) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const HandoffResult result = RunHandoff(prefill, decode, MakeSpec(Prompt(80, 1), Greedy(1), 1));
  EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
  EXPECT_TRUE(result.first_token.ends_sequence());
  EXPECT_FALSE(result.committed);
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, APrefillWithoutADecodeWorkerAnswersItsTokenOnly) {
  TestWorker prefill(WithBlocks(16));
  internal::v1::PrefillRequest request;
  *request.mutable_sequence() = MakeSpec(Prompt(80, 1), Greedy(1), 1);
  grpc::ClientContext context;
  auto call = prefill.prefill().Prefill(&context, request);
  internal::v1::PrefillResponse response;
  bool token = false;
  bool finished = false;
  while (call->Read(&response)) {
    token |= response.has_first_token();
    finished |= response.has_finished();
  }
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_TRUE(token && finished);
  EXPECT_TRUE(prefill.ComesToRest());
}

TEST(WorkerPairTest, CallsThatWaitForMemoryGetSignsOfLife) {
  TestWorker::Options options = WithBlocks(16);
  options.num_kv_blocks = 8;
  options.sign_interval = absl::ZeroDuration();
  TestWorker worker(options);
  const auto start = [&worker](grpc::ClientContext& context, uint64_t request_id) {
    auto call = worker.decode().Decode(&context);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = MakeSpec(Prompt(100, 1), Greedy(4), request_id);
    call->Write(request);
    return call;
  };
  grpc::ClientContext holding, waiting, prefilling;
  const auto holds = start(holding, 1);  // all blocks
  DecodeResponse response;
  do {
    ASSERT_TRUE(holds->Read(&response));
  } while (!response.has_accepted());
  const auto waits = start(waiting, 2);
  internal::v1::PrefillRequest request;
  *request.mutable_sequence() = MakeSpec(Prompt(100, 1), Greedy(1), 3);
  const auto prefill = worker.prefill().Prefill(&prefilling, request);
  for (int sign = 0; sign < 3; ++sign) {
    worker.engine().Wake();
    ASSERT_TRUE(waits->Read(&response));
    EXPECT_TRUE(response.has_alive());
    worker.engine().Wake();
    internal::v1::PrefillResponse prefill_response;
    ASSERT_TRUE(prefill->Read(&prefill_response));
    EXPECT_TRUE(prefill_response.has_alive());
  }
  for (grpc::ClientContext* context : {&holding, &waiting, &prefilling}) context->TryCancel();
  holds->Finish();
  waits->Finish();
  prefill->Finish();
  EXPECT_TRUE(worker.ComesToRest());
}

// Each layer of each step brings a sign, and each sign goes through the push.
TEST(WorkerPairTest, SignsOfLifeChangeNothingOfAHandoff) {
  TestWorker::Options options = WithBlocks(16);
  options.sign_interval = absl::ZeroDuration();
  TestWorker prefill(options), decode(options), local(WithBlocks(16));
  const SequenceSpec spec = MakeSpec(Prompt(300, 3), Seeded(9, 4), 1);
  const HandoffResult result = RunHandoff(prefill, decode, spec);
  ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
  EXPECT_TRUE(result.committed);
  ExpectSameTokens(result, RunLocally(local, spec));
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, AHigherAttemptEndsALowerOneAndALateLowerOneIsRefused) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const auto prompt = Prompt(70, 2);
  OpenDecode first(decode, MakeSpec(prompt, Greedy(4), 1, 1));
  ASSERT_TRUE(first.accepted);
  const HandoffResult second = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(4), 1, 2));
  EXPECT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
  EXPECT_EQ(ErrorReason(FromGrpcStatus(first.Drain())), kReasonSuperseded);
  const HandoffResult late = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(4), 1, 1));
  EXPECT_EQ(ErrorReason(FromGrpcStatus(late.decode_status)), kReasonSuperseded);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, APrefillThatEndsBeforeItsCommitEndsTheDecodeCall) {
  TestWorker::Options slow = WithBlocks(16);
  slow.receiver_limits.window_bytes = 4096;
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(slow);
  const SequenceSpec spec = MakeSpec(Prompt(200, 2), Greedy(4), 1);
  OpenDecode call(decode, spec);
  ASSERT_TRUE(call.accepted);
  grpc::ClientContext context;
  auto prefilling = prefill.prefill().Prefill(&context, PrefillRequestFor(decode, spec));
  internal::v1::PrefillResponse response;
  ASSERT_TRUE(prefilling->Read(&response));
  context.TryCancel();
  while (prefilling->Read(&response)) {
  }
  EXPECT_FALSE(prefilling->Finish().ok());
  const absl::Status status = FromGrpcStatus(call.Drain());
  if (!call.committed) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ErrorReason(status), kReasonKvTransferFailed);
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, CancellingEitherCallAtAnyMomentGivesEveryBlockBack) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  std::mt19937 random(3);
  for (uint64_t id = 1; id <= 60; ++id) {
    const SequenceSpec spec = MakeSpec(
        Prompt(1 + static_cast<int>(random() % 180), static_cast<uint32_t>(id)), Greedy(60), id);
    grpc::ClientContext decode_context;
    grpc::ClientContext prefill_context;
    auto call = decode.decode().Decode(&decode_context);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call->Write(request);
    const absl::Duration delay = absl::Microseconds(random() % 20000);
    const bool cancel_decode = random() % 2 == 0;
    std::thread canceller([&] {
      absl::SleepFor(delay);
      (cancel_decode ? decode_context : prefill_context).TryCancel();
    });
    DecodeResponse response;
    std::thread prefilling;
    while (call->Read(&response)) {
      if (response.has_accepted()) {
        prefilling = std::thread([&] {
          auto stream =
              prefill.prefill().Prefill(&prefill_context, PrefillRequestFor(decode, spec));
          internal::v1::PrefillResponse prefill_response;
          while (stream->Read(&prefill_response)) {
          }
          // As the router does: nothing else would end a decode call whose push never comes.
          if (!stream->Finish().ok()) decode_context.TryCancel();
        });
      }
    }
    call->Finish();
    prefill_context.TryCancel();
    if (prefilling.joinable()) prefilling.join();
    canceller.join();
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

}  // namespace
}  // namespace baton
