// A push that breaks, and the next attempt at its request, between real workers on loopback: what
// arrived is not sent again, and serves nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/status.h"
#include "tests/decode_worker/broken_attempt.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::SequenceSpec;

constexpr int kPromptTokens = 200;

std::vector<int32_t> PromptOf(uint32_t seed, int tokens = kPromptTokens) {
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

TestWorker::Options WorkerOptions(int block_size, int num_kv_blocks = 128) {
  TestWorker::Options options;
  options.block_size = block_size;
  options.num_kv_blocks = num_kv_blocks;
  return options;
}

void ExpectTokensFrom(const HandoffResult& a, const HandoffResult& b, size_t first_of_b = 0) {
  ASSERT_TRUE(a.decode_status.ok()) << a.decode_status.error_message();
  ASSERT_EQ(a.tokens.size() + first_of_b, b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[first_of_b + i].SerializeAsString());
  }
}

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
  TestWorker prefill(WorkerOptions(GetParam().first));
  TestWorker decode(WorkerOptions(GetParam().second));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(1);
  BreakAfter64(prefill, decode, prompt);
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 64));
  EXPECT_EQ(second.prefill_finished.bytes_sent(), Bytes(prefill, kPromptTokens - 64));
  EXPECT_EQ(second.prefill_finished.bytes_resent(), 0u);
  EXPECT_TRUE(second.finished.exact());
  ExpectTokensFrom(second, RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST_P(ResumedHandoff, AnAttemptThatAHigherOneEndsLeavesItsPagesToIt) {
  TestWorker prefill(WorkerOptions(GetParam().first));
  TestWorker decode(WorkerOptions(GetParam().second));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(2);
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
  ExpectTokensFrom(third, RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_TRUE(decode.ComesToRest());
}
INSTANTIATE_TEST_SUITE_P(BlockSizes, ResumedHandoff,
                         ::testing::Values(std::pair(16, 16), std::pair(16, 48),
                                           std::pair(32, 128)));

TEST(ResumedHandoffTest, TheTokensOfTheNextAttemptGoOnFromThoseOfTheOneBefore) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(32));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(3);
  const HandoffResult expected = RunLocally(local, SpecOf(prompt, 1, 1));
  BreakAfter64(prefill, decode, prompt);
  std::vector<int32_t> longer = prompt;
  for (size_t i = 0; i < 3; ++i) {
    longer.push_back(static_cast<int32_t>(expected.tokens[i].token().token_id()));
  }
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(longer, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 64));
  ExpectTokensFrom(second, expected, 3);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(ResumedHandoffTest, OtherTokensGetOnlyThePagesBeforeTheyDiffer) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(32));
  TestWorker local(WorkerOptions(16));
  std::vector<int32_t> prompt = PromptOf(4);
  BreakAfter64(prefill, decode, prompt);
  prompt[20] ^= 1;
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 16));
  ExpectTokensFrom(second, RunLocally(local, SpecOf(prompt, 1, 1)));
}

TEST(ResumedHandoffTest, NobodyElseGetsWhatABrokenAttemptLeft) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(5);
  BreakAfter64(prefill, decode, prompt);
  const HandoffResult other = RunHandoff(prefill, decode, SpecOf(prompt, 2, 1));
  EXPECT_EQ(other.prefill_finished.bytes_saved(), 0u);
  SequenceSpec other_choice = SpecOf(PromptOf(6), 3, 2);
  BreakAfter64(prefill, decode, PromptOf(6), 3);
  other_choice.mutable_key()->set_choice(1);
  EXPECT_EQ(RunHandoff(prefill, decode, other_choice).prefill_finished.bytes_saved(), 0u);
}

TEST(ResumedHandoffTest, WhoeverNeedsTheBlocksGetsThemAtOnce) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(16, 16));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(7);
  BreakAfter64(prefill, decode, prompt);
  EXPECT_EQ(decode.engine().Stats().free_blocks, 16);
  EXPECT_EQ(decode.engine().Stats().cached_blocks, 4);
  const HandoffResult other = RunHandoff(prefill, decode, SpecOf(PromptOf(8, 240), 2, 1, 240));
  EXPECT_TRUE(other.decode_status.ok()) << other.decode_status.error_message();
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), 0u);
  ExpectTokensFrom(second, RunLocally(local, SpecOf(prompt, 1, 1)));
}

TEST(ResumedHandoffTest, WhatNobodyComesForEndsByTimeAlone) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker::Options options = WorkerOptions(16);
  options.resume_timeout = absl::Milliseconds(400);
  TestWorker decode(options);
  const std::vector<int32_t> prompt = PromptOf(9);
  BreakAfter64(prefill, decode, prompt);
  EXPECT_TRUE(Eventually([&] { return decode.engine().Stats().cached_blocks == 0; }));
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(prompt, 1, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), 0u);
  EXPECT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
}

TEST(ResumedHandoffTest, ACallThatTheRouterEndsLeavesNothing) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(16));
  BrokenAttempt attempt(prefill, decode, SpecOf(PromptOf(10), 1, 1));
  EXPECT_EQ(attempt.Open(), 0);
  attempt.SendPages(0, 64);
  attempt.Checkpoint(64);
  attempt.CancelDecode();
  attempt.Ended();
  EXPECT_EQ(decode.engine().Stats().cached_blocks, 0);
}

TEST(ResumedHandoffTest, APrefillOnTheDecodeWorkerGoesOnFromThePagesAndSharesThemWithNobody) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(48));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(11);
  BreakAfter64(prefill, decode, prompt);
  ExpectTokensFrom(RunLocally(decode, SpecOf(prompt, 1, 2)),
                   RunLocally(local, SpecOf(prompt, 1, 1)));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 64u);
  RunLocally(decode, SpecOf(prompt, 2, 1));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 64u);
  EXPECT_TRUE(decode.ComesToRest());
}

// Two are pushed at the same time, behind blocks that they share.
TEST(ResumedHandoffTest, WhatTheDecodeWorkerHoldsIsPinnedAndNotSent) {
  TestWorker prefill(WorkerOptions(16));
  TestWorker decode(WorkerOptions(32));
  TestWorker local(WorkerOptions(16));
  const std::vector<int32_t> prompt = PromptOf(12);
  std::vector<int32_t> other = PromptOf(13);
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
    ExpectTokensFrom(same, first);
    EXPECT_EQ(pinned.Cut(), kReasonKvTransferFailed);
  }
  const HandoffResult second = RunHandoff(prefill, decode, SpecOf(other, 2, 2));
  EXPECT_EQ(second.prefill_finished.bytes_saved(), Bytes(prefill, 96));
  ExpectTokensFrom(second, RunLocally(local, SpecOf(other, 2, 1)));
  ExpectTokensFrom(RunLocally(decode, SpecOf(prompt, 4, 1)), first);
  EXPECT_TRUE(decode.ComesToRest());
}

}  // namespace
}  // namespace baton
