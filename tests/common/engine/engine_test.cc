#include "common/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/make_backend.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

SamplingParams GreedyWithLogprobs(int max_tokens) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true, .logprobs = 3};
}

SamplingParams Seeded(int max_tokens, uint64_t seed) {
  return {.temperature = 0.9f,
          .top_p = 0.95f,
          .presence_penalty = 0.3f,
          .frequency_penalty = 0.1f,
          .repetition_penalty = 1.1f,
          .max_tokens = max_tokens,
          .seed = seed,
          .ignore_eos = true,
          .logprobs = 2};
}

TEST(Engine, ALocalSequencePrefillsInChunksAndDecodesToItsLength) {
  EngineHarness harness(EngineHarness::SmallOptions());
  std::mt19937 random(1);
  const EventLog log =
      harness.RunAlone(LocalRequest(RandomTokens(random, 300), GreedyWithLogprobs(20)));
  EXPECT_THAT(log.chunk_ends, testing::ElementsAre(128, 256, 300));
  EXPECT_TRUE(log.finished);
  ASSERT_EQ(log.tokens.size(), 20u);
  EXPECT_EQ(log.tokens.front().output_index, 0);
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kLength);
  harness.ExpectNothingHeld();
}

TEST(Engine, TheSameTokensWhateverElseIsInTheBatchAndHoweverThePromptIsCut) {
  std::mt19937 random(2);
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < 12; ++i) {
    const int length = 1 + static_cast<int>(random() % 280);
    const int outputs = 1 + static_cast<int>(random() % 40);
    requests.push_back(LocalRequest(RandomTokens(random, length), i % 2 == 0
                                                                      ? GreedyWithLogprobs(outputs)
                                                                      : Seeded(outputs, random())));
  }
  EngineHarness alone(EngineHarness::SmallOptions());
  std::vector<EventLog> expected;
  for (const SequenceRequest& request : requests) expected.push_back(alone.RunAlone(request));

  for (int variant = 0; variant < 3; ++variant) {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.threads = 1 + variant % 2;
    options.engine.block_size = 16 << variant;
    options.engine.num_kv_blocks = 4096 / options.engine.block_size;
    options.engine.max_num_batched_tokens = 64 + 100 * variant;
    options.engine.max_num_seqs = 3 + 4 * variant;
    EngineHarness together(options);
    std::vector<SequenceId> ids;
    for (const SequenceRequest& request : requests) ids.push_back(together.Submit(request));
    together.Run();
    for (size_t i = 0; i < ids.size(); ++i) {
      ExpectSameTokens(together.log(ids[i]).tokens, expected[i].tokens);
    }
    together.ExpectNothingHeld();
  }
}

TEST(Engine, AResumedSequenceContinuesIdentically) {
  std::mt19937 random(3);
  EngineHarness harness(EngineHarness::SmallOptions());
  for (const SamplingParams& sampling : {GreedyWithLogprobs(24), Seeded(24, 77)}) {
    const SequenceRequest request = LocalRequest(RandomTokens(random, 70), sampling);
    const EventLog whole = harness.RunAlone(request);
    for (size_t accepted : {1, 7, 23}) {
      SequenceRequest resumed = request;
      for (size_t i = 0; i < accepted; ++i) resumed.token_ids.push_back(whole.tokens[i].token_id);
      const EventLog rest = harness.RunAlone(resumed);
      ExpectSameTokens(rest.tokens,
                       {whole.tokens.begin() + static_cast<int>(accepted), whole.tokens.end()});
    }
  }
}

TEST(Engine, PreemptedSequencesGetTheTokensOfAnUndisturbedRun) {
  std::mt19937 random(4);
  std::vector<SequenceRequest> requests;
  for (uint64_t i = 0; i < 5; ++i) {
    requests.push_back(LocalRequest(RandomTokens(random, 40), Seeded(60, i)));
  }
  EngineHarness roomy(EngineHarness::SmallOptions());
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.num_kv_blocks = 16;  // 7 for each at its end
  EngineHarness tight(options);
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(tight.Submit(request));
  tight.Run();
  int preempted = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    ExpectSameTokens(tight.log(ids[i]).tokens, roomy.RunAlone(requests[i]).tokens);
    preempted += tight.log(ids[i]).preempted;
  }
  EXPECT_GT(preempted, 0);
  EXPECT_EQ(tight.engine().Stats().preemptions, static_cast<uint64_t>(preempted));
  EXPECT_EQ(tight.log(ids[0]).preempted, 0) << "the oldest always advances";
  tight.ExpectNothingHeld();
}

// The hand-off without a network: the very same tokens as one engine gives, whatever the block
// sizes.
TEST(Engine, PrefillHereAndDecodeThereEqualsOneEngine) {
  std::mt19937 random(5);
  for (KvType dtype : {KvType::kF32, KvType::kF16, KvType::kBf16}) {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.engine.kv_dtype = dtype;
    EngineHarness prefill(options);
    options.engine.block_size = 48;
    options.engine.max_num_batched_tokens = 64;
    EngineHarness decode(options);
    options.engine.block_size = 32;
    EngineHarness local(options);
    for (int length : {1, 16, 47, 48, 130, 260}) {
      SequenceRequest request = LocalRequest(
          RandomTokens(random, length), length % 2 == 0 ? GreedyWithLogprobs(30) : Seeded(30, 5));
      const EventLog expected = local.RunAlone(request);

      request.mode = Mode::kReceive;
      const SequenceId received = decode.Submit(request);
      decode.Run();
      ASSERT_TRUE(decode.log(received).admitted);
      decode.engine().OpenReceive(received, "");
      decode.Run();
      ASSERT_TRUE(decode.log(received).granted);

      request.mode = Mode::kPrefillOnly;
      const SequenceId sent = prefill.Submit(request);
      prefill.Run();
      const EventLog& prefilled = prefill.log(sent);
      ASSERT_TRUE(prefilled.finished);
      ASSERT_EQ(prefilled.tokens.size(), 1u);
      EXPECT_GT(prefill.engine().Stats().used_blocks, 0) << "held until Release";
      CopyKv(prefill.engine().cache(), prefilled.block_table, decode.engine().cache(),
             decode.log(received).block_table, {decode.log(received).start_token, length});
      prefill.engine().Release(sent);
      prefill.Run();
      EXPECT_TRUE(prefill.log(sent).released);

      decode.engine().Commit(received, {prefilled.tokens[0]});
      decode.Run();
      std::vector<OutputToken> tokens = prefilled.tokens;
      const EventLog& decoded = decode.log(received);
      tokens.insert(tokens.end(), decoded.tokens.begin(), decoded.tokens.end());
      ExpectSameTokens(tokens, expected.tokens);
      EXPECT_TRUE(decoded.finished);
      prefill.ExpectNothingHeld();
      decode.ExpectNothingHeld();
    }
  }
}

TEST(Engine, EveryPageOfAPrefillHasTheCrcOfItsBytes) {
  std::mt19937 random(6);
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.block_size = 32;
  EngineHarness harness(options);
  SequenceRequest request = LocalRequest(RandomTokens(random, 205), GreedyWithLogprobs(1));
  request.mode = Mode::kPrefillOnly;
  KvCache& cache = harness.engine().cache();
  int pages = 0;
  harness.Submit(request, [&](const SequenceEvent& event) {
    const auto* layer = std::get_if<LayerComputed>(&event);
    if (layer == nullptr) return;
    const int end = layer->first_token + layer->token_count;
    EXPECT_TRUE(end % 64 == 0 || end == 205);
    for (int token = layer->first_token; token < end; token += kKvPageTokens, ++pages) {
      const int32_t block = layer->block_table[static_cast<size_t>(token / 32)];
      const int page = token % 32 / kKvPageTokens;
      EXPECT_EQ(cache.PageCrc(block, layer->layer, page),
                cache.ComputePageCrc(block, layer->layer, page, std::min(16, end - token)));
    }
  });
  harness.Run();
  EXPECT_EQ(pages, 13 * harness.engine().model_config().layers);
}

TEST(Engine, TheTokenThatEndsTheSequenceSaysWhy) {
  std::mt19937 random(7);
  EngineHarness harness(EngineHarness::SmallOptions());
  const SequenceRequest request = LocalRequest(RandomTokens(random, 30), GreedyWithLogprobs(10));
  const std::vector<int32_t> ids = harness.RunAlone(request).token_ids();

  SequenceRequest stopped = request;
  stopped.sampling.stop_token_ids = {ids[4]};
  const EventLog log = harness.RunAlone(stopped);
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);
  EXPECT_EQ(log.tokens.back().token_id, ids[4]);
  EXPECT_LE(log.tokens.size(), 5u);

  stopped.sampling.min_tokens = 10;
  const EventLog masked = harness.RunAlone(stopped);
  EXPECT_EQ(masked.tokens.size(), 10u);
  EXPECT_THAT(masked.token_ids(), testing::Not(testing::Contains(ids[4])));

  SequenceRequest first = request;
  first.mode = Mode::kPrefillOnly;
  first.sampling.stop_token_ids = {ids[0]};
  EXPECT_EQ(harness.RunAlone(first).tokens[0].finish_reason, FinishReason::kStop);
}

TEST(Engine, AnEndOfGenerationTokenEndsTheSequenceUnlessIgnored) {
  std::mt19937 random(8);
  const std::vector<int32_t> prompt = RandomTokens(random, 30);
  EngineHarness::Options options = EngineHarness::SmallOptions();
  const int32_t third = EngineHarness(options)
                            .RunAlone(LocalRequest(prompt, GreedyWithLogprobs(10)))
                            .tokens[2]
                            .token_id;
  options.engine.end_of_generation_ids = {third};
  EngineHarness harness(options);
  SamplingParams sampling = GreedyWithLogprobs(10);
  EXPECT_EQ(harness.RunAlone(LocalRequest(prompt, sampling)).tokens.size(), 10u);
  sampling.ignore_eos = false;
  const EventLog log = harness.RunAlone(LocalRequest(prompt, sampling));
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);
  EXPECT_EQ(log.tokens.back().token_id, third);
}

TEST(Engine, OutputEndsAtMaxModelLen) {
  std::mt19937 random(9);
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.max_model_len = 50;
  EngineHarness harness(options);
  const EventLog log =
      harness.RunAlone(LocalRequest(RandomTokens(random, 45), GreedyWithLogprobs(100)));
  EXPECT_EQ(log.tokens.size(), 5u);
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kLength);
}

TEST(Engine, ALogitThatIsNoNumberFailsItsSequenceAlone) {
  std::mt19937 random(10);
  EngineHarness harness(EngineHarness::SmallOptions());
  const SequenceRequest healthy = LocalRequest(RandomTokens(random, 30), GreedyWithLogprobs(20));
  const EventLog expected = harness.RunAlone(healthy);

  const SequenceId broken_id = harness.SubmitWithNanKv(healthy);
  const SequenceId healthy_id = harness.Submit(healthy);
  harness.engine().Step();
  harness.engine().Commit(broken_id, {{.output_index = 0, .token_id = 5}});
  harness.Run();
  EXPECT_EQ(harness.log(broken_id).failure.code(), absl::StatusCode::kInternal);
  ExpectSameTokens(harness.log(healthy_id).tokens, expected.tokens);
  // Blocks that hold NaN serve the next sequence as any other.
  ExpectSameTokens(harness.RunAlone(healthy).tokens, expected.tokens);
  harness.ExpectNothingHeld();
}

TEST(Engine, ACommitThatCannotBeTheNextOutputFailsTheSequence) {
  std::mt19937 random(11);
  EngineHarness harness(EngineHarness::SmallOptions());
  for (const OutputToken& token : {OutputToken{.output_index = 1, .token_id = 5},
                                   OutputToken{.output_index = 0, .token_id = 320},
                                   OutputToken{.output_index = 0, .token_id = -1}}) {
    SequenceRequest request = LocalRequest(RandomTokens(random, 20), GreedyWithLogprobs(5));
    request.mode = Mode::kReceive;
    const SequenceId id = harness.Submit(request);
    harness.Run();
    harness.engine().OpenReceive(id, "");
    harness.Run();
    harness.engine().Commit(id, {token});
    harness.Run();
    EXPECT_EQ(harness.log(id).failure.code(), absl::StatusCode::kInvalidArgument);
  }
  harness.ExpectNothingHeld();
}

TEST(Engine, ACommittedTokenThatEndsTheSequenceFinishesItAtOnce) {
  std::mt19937 random(12);
  EngineHarness harness(EngineHarness::SmallOptions());
  SequenceRequest request = LocalRequest(RandomTokens(random, 20), GreedyWithLogprobs(1));
  request.mode = Mode::kReceive;
  const SequenceId id = harness.Submit(request);
  harness.Run();
  harness.engine().OpenReceive(id, "");
  harness.Run();
  harness.engine().Commit(id, {{.output_index = 0, .token_id = 5}});
  harness.Run();
  EXPECT_TRUE(harness.log(id).finished);
  EXPECT_TRUE(harness.log(id).tokens.empty());
  harness.ExpectNothingHeld();
}

TEST(Engine, APausedSequenceKeepsItsBlocksAndGoesOnAsIfNothingWas) {
  std::mt19937 random(13);
  EngineHarness harness(EngineHarness::SmallOptions());
  const SequenceRequest request = LocalRequest(RandomTokens(random, 20), Seeded(30, 3));
  const EventLog expected = harness.RunAlone(request);
  const SequenceId id = harness.Submit(request);
  for (int i = 0; i < 5; ++i) harness.engine().Step();
  harness.engine().SetPaused(id, true);
  harness.Run();
  EXPECT_FALSE(harness.log(id).ended());
  EXPECT_GT(harness.engine().Stats().used_blocks, 0);
  EXPECT_EQ(harness.engine().Stats().runnable_sequences, 0);
  harness.engine().SetPaused(id, false);
  harness.Run();
  ExpectSameTokens(harness.log(id).tokens, expected.tokens);
}

TEST(Engine, AReleasedSequenceIsToldSoOnceAndUnknownIdsNothing) {
  EngineHarness harness(EngineHarness::SmallOptions());
  const SequenceId id = harness.Submit(LocalRequest({1, 2, 3}, GreedyWithLogprobs(50)));
  harness.engine().Step();
  harness.engine().Release(id);
  harness.engine().Release(id);
  harness.engine().Release(12345);
  harness.Run();
  EXPECT_TRUE(harness.log(id).released);
  harness.engine().Release(id);
  harness.Run();
  harness.ExpectNothingHeld();
}

}  // namespace
}  // namespace baton
