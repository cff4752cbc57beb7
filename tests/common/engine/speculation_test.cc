// An engine that guesses tokens: what must not show.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

EngineHarness::Options Guessing(int steps_ahead = 0) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.speculation = SpeculationMode::kNgram;
  options.engine.steps_ahead = steps_ahead;
  return options;
}

// An output of few tokens is full of n-grams that came before, not all of which go on alike.
SamplingParams FewTokens(int max_tokens, uint64_t seed) {
  return {.temperature = 0.9f,
          .max_tokens = max_tokens,
          .seed = seed,
          .ignore_eos = true,
          .logprobs = 2,
          .logit_bias = {{3, 40.0f}, {90, 40.0f}, {200, 40.0f}}};
}

// All but the tokens that a run without guesses gives.
void ExpectAsWithoutGuesses(const EventLog& log, const EventLog& expected) {
  EXPECT_TRUE(log.finished) << log.failure;
  ExpectSameTokens(log.tokens, expected.tokens);
}

class Speculation : public testing::TestWithParam<int> {};  // steps_ahead

TEST_P(Speculation, ChangesNoTokenOfChoicesThatArePreempted) {
  EngineHarness plain(EngineHarness::SmallOptions());
  EngineHarness::Options tight = Guessing(GetParam());
  tight.engine.num_kv_blocks = 16;
  EngineHarness harness(tight);
  std::mt19937 random(1);
  std::vector<SequenceRequest> requests;
  std::vector<SequenceId> ids;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(LocalRequest(RandomTokens(random, 17 + i), FewTokens(80, random())));
    requests.back().choices = 1 + i % 3;
    ids.push_back(harness.Submit(requests.back()));
  }
  harness.Run();
  int accepted = 0;
  int refused = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ExpectChoicesAsAlone(harness, ids[i], requests[i], plain);
    for (const EventLog& log : harness.logs(ids[i])) {
      accepted += log.accepted_guesses;
      refused += log.refused_guesses;
    }
  }
  EXPECT_GT(accepted, 20);
  EXPECT_GT(refused, 20);
  EXPECT_GT(harness.engine().Stats().preemptions, 0u);
  EXPECT_EQ(harness.engine().Stats().accepted_guesses, static_cast<uint64_t>(accepted));
  EXPECT_EQ(harness.engine().Stats().refused_guesses, static_cast<uint64_t>(refused));
  harness.ExpectNothingHeld();
}

TEST_P(Speculation, EntersTheBlocksOfTrueGuessesAloneIntoThePrefixCache) {
  EngineHarness plain(EngineHarness::SmallOptions());
  EngineHarness harness(Guessing(GetParam()));
  std::mt19937 random(2);
  for (int i = 0; i < 6; ++i) {
    const SequenceRequest request =
        LocalRequest(RandomTokens(random, 10 + i), FewTokens(70, random()));
    const EventLog expected = plain.RunAlone(request);
    ExpectAsWithoutGuesses(harness.RunAlone(request), expected);
    // What comes after it finds as many of its blocks, and in them the same KV.
    std::vector<int32_t> longer = request.token_ids;
    for (const OutputToken& token : expected.tokens) longer.push_back(token.token_id);
    longer.push_back(5);
    for (const SequenceRequest& next :
         {LocalRequest(longer, FewTokens(20, random())), LocalRequest(longer, Greedy(20))}) {
      ExpectAsWithoutGuesses(harness.RunAlone(next), plain.RunAlone(next));
      EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached,
                plain.engine().Stats().prompt_tokens_cached);
    }
  }
  EXPECT_EQ(harness.engine().Stats().generated_tokens, plain.engine().Stats().generated_tokens);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_computed,
            plain.engine().Stats().prompt_tokens_computed);
  EXPECT_GT(harness.engine().Stats().accepted_guesses, 20u);
  EXPECT_GT(harness.engine().Stats().refused_guesses, 20u);
}

TEST_P(Speculation, IsForARequestToChooseUnlessTheEngineGuessesForNobody) {
  std::mt19937 random(3);
  SequenceRequest request = LocalRequest(RandomTokens(random, 20), FewTokens(60, 1));
  const auto guesses = [&](SpeculationMode engine, SpeculationMode asked) {
    EngineHarness::Options options = Guessing(GetParam());
    options.engine.speculation = engine;
    EngineHarness harness(options);
    request.speculation = asked;
    const EventLog log = harness.RunAlone(request);
    return log.accepted_guesses + log.refused_guesses;
  };
  EXPECT_GT(guesses(SpeculationMode::kAuto, SpeculationMode::kNgram), 40);
  EXPECT_EQ(guesses(SpeculationMode::kAuto, SpeculationMode::kNone), 0);
  EXPECT_EQ(guesses(SpeculationMode::kNone, SpeculationMode::kNgram), 0);
}

INSTANTIATE_TEST_SUITE_P(StepsAhead, Speculation, testing::Values(0, 1));

}  // namespace
}  // namespace baton
