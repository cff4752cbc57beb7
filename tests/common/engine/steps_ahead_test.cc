// An engine that asks for a step before it knows the last one's tokens: what must not show.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <variant>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

EngineHarness::Options AStepAhead() {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.steps_ahead = 1;
  return options;
}

TEST(StepsAhead, TokensComeWithTheStepBehindTheirs) {
  EngineHarness harness(AStepAhead());
  std::mt19937 random(1);
  const SequenceId id = harness.Submit(LocalRequest(RandomTokens(random, 20), Greedy(3)));
  EXPECT_TRUE(harness.engine().Step());  // the prompt is asked for
  EXPECT_EQ(harness.log(id).tokens.size(), 0u);
  EXPECT_TRUE(harness.engine().Step());
  EXPECT_EQ(harness.log(id).tokens.size(), 1u);
  EXPECT_TRUE(harness.engine().Step());
  EXPECT_EQ(harness.log(id).tokens.size(), 2u);
  EXPECT_TRUE(harness.engine().Step());  // nothing is asked for behind the last one
  EXPECT_TRUE(harness.log(id).finished);
  harness.ExpectNothingHeld();
  EXPECT_FALSE(harness.engine().Step());
}

TEST(StepsAhead, PenaltiesCountTheTokenThatIsNotKnownYet) {
  EngineHarness synchronous(EngineHarness::SmallOptions());
  EngineHarness ahead(AStepAhead());
  std::mt19937 random(2);
  for (const float temperature : {0.0f, 0.9f}) {
    SamplingParams sampling = Greedy(40);
    sampling.temperature = temperature;
    sampling.presence_penalty = 1.5f;
    sampling.frequency_penalty = 0.7f;
    sampling.repetition_penalty = 1.3f;
    sampling.logprobs = 2;
    const SequenceRequest request = LocalRequest(RandomTokens(random, 30), sampling);
    ExpectSameTokens(ahead.RunAlone(request).tokens, synchronous.RunAlone(request).tokens);
  }
}

TEST(StepsAhead, WhatIsComputedBehindAStopTokenIsNeitherToldNorCached) {
  EngineHarness synchronous(EngineHarness::SmallOptions());
  EngineHarness ahead(AStepAhead());
  std::mt19937 random(3);
  const std::vector<int32_t> prompt = RandomTokens(random, 27);
  SamplingParams stopping = {.temperature = 50, .max_tokens = 30, .seed = 1, .ignore_eos = true};
  const std::vector<int32_t> tokens =
      synchronous.RunAlone(LocalRequest(prompt, stopping)).token_ids();
  // K and V of the stop token, which fills a block with those before it, are computed too.
  stopping.stop_token_ids = {tokens[4]};
  ASSERT_EQ(std::count(tokens.begin(), tokens.begin() + 4, tokens[4]), 0);
  std::vector<int32_t> longer = prompt;
  longer.insert(longer.end(), tokens.begin(), tokens.begin() + 5);
  ASSERT_EQ(longer.size() % 16, 0u);
  longer.push_back(1);
  EngineHarness fresh(EngineHarness::SmallOptions());
  for (EngineHarness* harness : {&fresh, &ahead}) {
    const EventLog log = harness->RunAlone(LocalRequest(prompt, stopping));
    EXPECT_EQ(log.token_ids(), std::vector<int32_t>(tokens.begin(), tokens.begin() + 5));
    EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);
    harness->ExpectNothingHeld();
    EXPECT_EQ(harness->engine().Stats().generated_tokens, 5u);
    harness->RunAlone(LocalRequest(longer, Greedy(2)));
    EXPECT_EQ(harness->engine().Stats().prompt_tokens_cached, 16u);
  }
}

TEST(StepsAhead, AReleaseTakesEffectWithTheStepsInFlight) {
  EngineHarness harness(AStepAhead());
  std::mt19937 random(4);
  const SequenceId other = harness.Submit(LocalRequest(RandomTokens(random, 10), Greedy(20)));
  const SequenceId id = harness.Submit(LocalRequest(RandomTokens(random, 30), Greedy(50)));
  for (int i = 0; i < 5; ++i) harness.engine().Step();
  const int used = harness.engine().Stats().used_blocks;
  harness.engine().Release(id);
  EXPECT_TRUE(harness.engine().Step());
  EXPECT_TRUE(harness.log(id).released);
  EXPECT_LT(harness.engine().Stats().used_blocks, used);
  harness.Run();
  EXPECT_EQ(harness.log(other).tokens.size(), 20u);
  harness.ExpectNothingHeld();
}

TEST(StepsAhead, APeerHearsOfLayersAndChunksInTheirOrder) {
  EngineHarness harness(AStepAhead());
  std::mt19937 random(5);
  SequenceRequest request = LocalRequest(RandomTokens(random, 300), Greedy(5));
  request.mode = SequenceRequest::Mode::kPrefillOnly;
  int chunk_begin = 0;
  int layers = 0;
  const SequenceId id = harness.Submit(std::move(request), [&](const SequenceEvent& event) {
    if (const auto* layer = std::get_if<LayerComputed>(&event)) {
      EXPECT_EQ(layer->first_token, chunk_begin);
      EXPECT_EQ(layer->layer, layers++);
    } else if (const auto* chunk = std::get_if<ChunkComputed>(&event)) {
      EXPECT_EQ(layers, harness.engine().model_config().layers);
      chunk_begin = chunk->end_token;
      layers = 0;
    }
  });
  harness.Run();
  EXPECT_EQ(chunk_begin, 300);
  EXPECT_TRUE(harness.log(id).finished);
  harness.engine().Release(id);
  harness.Run();
  harness.ExpectNothingHeld();
}

}  // namespace
}  // namespace baton
