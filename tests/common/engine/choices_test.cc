// Several choices of one request: each is what a request of that choice alone would be, and what
// they share is computed and held once.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

EngineHarness::Options Ahead(int steps_ahead) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.steps_ahead = steps_ahead;
  return options;
}

SamplingParams Sampled(int max_tokens) {
  return {
      .temperature = 0.9f, .max_tokens = max_tokens, .seed = 11, .ignore_eos = true, .logprobs = 2};
}

SequenceRequest WithChoices(std::vector<int32_t> tokens, const SamplingParams& sampling,
                            int choices) {
  SequenceRequest request = LocalRequest(std::move(tokens), sampling);
  request.choices = choices;
  return request;
}

// What each choice of `request` gives alone.
std::vector<EventLog> Alone(EngineHarness& harness, const SequenceRequest& request) {
  std::vector<EventLog> logs;
  for (int i = 0; i < request.choices; ++i) {
    SequenceRequest alone = request;
    alone.mode = Mode::kLocal;
    alone.choice = request.choice + i;
    alone.choices = 1;
    logs.push_back(harness.RunAlone(std::move(alone)));
  }
  return logs;
}

class Choices : public testing::TestWithParam<int> {};  // steps_ahead

TEST_P(Choices, EachIsWhatItWouldBeAlone) {
  EngineHarness harness(Ahead(GetParam()));
  EngineHarness other(EngineHarness::SmallOptions());
  std::mt19937 random(1);
  SamplingParams greedy = Sampled(12);
  greedy.temperature = 0;
  SamplingParams penalised = Sampled(12);
  penalised.presence_penalty = 1.2f;
  penalised.frequency_penalty = 0.6f;
  penalised.repetition_penalty = 1.4f;
  for (const SamplingParams& sampling : {greedy, Sampled(12), penalised, Sampled(1)}) {
    for (const int length : {1, 15, 16, 17, 32, 100}) {
      SequenceRequest request =
          WithChoices(RandomTokens(random, length), sampling, 1 + static_cast<int>(random() % 8));
      request.choice = static_cast<int>(random() % 8);
      SCOPED_TRACE(std::to_string(length) + " tokens, " + std::to_string(request.choices));
      const SequenceId id = harness.Submit(request);
      harness.Run();
      const std::vector<EventLog> alone = Alone(other, request);
      for (size_t i = 0; i < alone.size(); ++i) {
        EXPECT_TRUE(harness.logs(id)[i].finished);
        ExpectSameTokens(harness.logs(id)[i].tokens, alone[i].tokens);
      }
      harness.ExpectNothingHeld();
    }
  }
}

TEST_P(Choices, ComputeThePromptOnceAndShareItsFullBlocks) {
  EngineHarness harness(Ahead(GetParam()));
  std::mt19937 random(2);
  // Three full blocks, and one for each choice.
  const SequenceId id = harness.Submit(WithChoices(RandomTokens(random, 55), Sampled(20), 8));
  while (harness.log(id, 7).tokens.size() < 4) harness.engine().Step();
  EXPECT_EQ(harness.engine().Stats().used_blocks, 3 + 8);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_computed, 55u);
  harness.Run();
  EXPECT_EQ(harness.engine().Stats().generated_tokens, 8 * 20u);
  harness.ExpectNothingHeld();
}

TEST_P(Choices, AllSixteenFitInABatchOfFewer) {
  EngineHarness::Options options = Ahead(GetParam());
  options.engine.max_num_seqs = 3;
  EngineHarness harness(options);
  std::mt19937 random(3);
  const SequenceRequest request = WithChoices(RandomTokens(random, 20), Sampled(9), 16);
  const SequenceId before = harness.Submit(LocalRequest(RandomTokens(random, 9), Sampled(30)));
  const SequenceId id = harness.Submit(request);
  const SequenceId behind = harness.Submit(LocalRequest(RandomTokens(random, 9), Sampled(5)));
  harness.Run();
  EXPECT_TRUE(harness.log(before).finished && harness.log(behind).finished);
  const std::vector<EventLog> alone = Alone(harness, request);
  for (size_t i = 0; i < 16; ++i) {
    ExpectSameTokens(harness.logs(id)[i].tokens, alone[i].tokens);
  }
}

TEST_P(Choices, OneThatIsPreemptedIsComputedAgainAlone) {
  for (const bool prefix_caching : {true, false}) {
    EngineHarness::Options options = Ahead(GetParam());
    options.engine.num_kv_blocks = 9;
    options.engine.enable_prefix_caching = prefix_caching;
    EngineHarness harness(options);
    EngineHarness other(EngineHarness::SmallOptions());
    std::mt19937 random(4);
    const SequenceRequest request = WithChoices(RandomTokens(random, 40), Sampled(60), 4);
    const SequenceId id = harness.Submit(request);
    harness.Run();
    const std::vector<EventLog> alone = Alone(other, request);
    int preempted = 0;
    for (size_t i = 0; i < 4; ++i) {
      ExpectSameTokens(harness.logs(id)[i].tokens, alone[i].tokens);
      preempted += harness.logs(id)[i].preempted;
    }
    EXPECT_GT(preempted, 0);
    EXPECT_EQ(harness.logs(id)[0].preempted, 0) << "the youngest first";
    harness.ExpectNothingHeld();
  }
}

TEST_P(Choices, OneThatIsStoppedLeavesTheOthers) {
  for (const int stopped : {0, 2}) {
    for (const int after : {0, 1, 6}) {  // tokens; 0: before the prompt is computed
      EngineHarness harness(Ahead(GetParam()));
      EngineHarness other(EngineHarness::SmallOptions());
      std::mt19937 random(5);
      const SequenceRequest request = WithChoices(RandomTokens(random, 40), Sampled(20), 3);
      const SequenceId id = harness.Submit(request);
      while (static_cast<int>(harness.log(id, 1).tokens.size()) < after) harness.engine().Step();
      harness.engine().Stop(id, stopped);
      harness.Run();
      const std::vector<EventLog> alone = Alone(other, request);
      for (int i = 0; i < 3; ++i) {
        const EventLog& log = harness.log(id, i);
        EXPECT_EQ(log.released, i == stopped);
        EXPECT_EQ(log.finished, i != stopped);
        if (i != stopped) {
          ExpectSameTokens(log.tokens, alone[static_cast<size_t>(i)].tokens);
        } else if (after == 0) {
          EXPECT_TRUE(log.tokens.empty());
        }
      }
      harness.ExpectNothingHeld();
    }
  }
}

TEST_P(Choices, EndAtOnceAndAllTogetherWhenTheyAreReleased) {
  for (const int after : {0, 3}) {
    EngineHarness harness(Ahead(GetParam()));
    std::mt19937 random(6);
    const SequenceId id = harness.Submit(WithChoices(RandomTokens(random, 40), Sampled(200), 5));
    while (static_cast<int>(harness.log(id, 4).tokens.size()) < after) harness.engine().Step();
    harness.engine().Release(id);
    harness.Run();
    for (const EventLog& log : harness.logs(id)) EXPECT_TRUE(log.released);
    harness.ExpectNothingHeld();
  }
}

// Each writes into its own copy of the last block, made from one that the first has gone on with.
TEST_P(Choices, OneThatWaitedFindsTheBlockAsTheyParted) {
  EngineHarness::Options options = Ahead(GetParam());
  options.engine.max_num_seqs = 1;  // one after the other
  EngineHarness harness(options);
  EngineHarness other(EngineHarness::SmallOptions());
  std::mt19937 random(7);
  const SequenceRequest request = WithChoices(RandomTokens(random, 39), Sampled(30), 3);
  const SequenceId id = harness.Submit(request);
  harness.Run();
  const std::vector<EventLog> alone = Alone(other, request);
  for (size_t i = 0; i < 3; ++i) ExpectSameTokens(harness.logs(id)[i].tokens, alone[i].tokens);
  harness.ExpectNothingHeld();
}

TEST_P(Choices, PartWhereTheyAreHandedOver) {
  for (const int length : {16, 33, 64, 90}) {
    EngineHarness prefill(Ahead(GetParam()));
    EngineHarness decode(Ahead(GetParam()));
    std::mt19937 random(8);
    SequenceRequest request = WithChoices(RandomTokens(random, length), Sampled(20), 5);
    const std::vector<EventLog> alone = Alone(prefill, request);
    request.mode = Mode::kPrefillOnly;
    const SequenceId prefilled = prefill.Submit(request);
    prefill.Run();
    std::vector<OutputToken> first;
    for (const EventLog& log : prefill.logs(prefilled)) {
      EXPECT_TRUE(log.finished);
      ASSERT_EQ(log.tokens.size(), 1u);
      first.push_back(log.tokens[0]);
    }
    request.mode = Mode::kReceive;
    const SequenceId id = decode.Submit(request);
    decode.Run();
    decode.engine().OpenReceive(id, "");
    decode.Run();
    CopyKv(prefill.engine().cache(), prefill.log(prefilled).block_table, decode.engine().cache(),
           decode.log(id).block_table, {0, length});
    decode.engine().Commit(id, first);
    decode.Run();
    for (size_t i = 0; i < 5; ++i) {
      std::vector<OutputToken> tokens = {first[i]};
      tokens.insert(tokens.end(), decode.logs(id)[i].tokens.begin(),
                    decode.logs(id)[i].tokens.end());
      ExpectSameTokens(tokens, alone[i].tokens);
    }
    prefill.engine().Release(prefilled);
    prefill.Run();
    prefill.ExpectNothingHeld();
    decode.ExpectNothingHeld();
  }
}

TEST_P(Choices, AreRefusedWhereTheyCouldNeverPart) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.num_kv_blocks = 8;
  EngineHarness harness(options);
  std::mt19937 random(9);
  // Six full blocks, and a last one for each.
  SequenceRequest request = WithChoices(RandomTokens(random, 100), Sampled(2), 3);
  const absl::Status status = TestSequences::Check(request, harness.engine().limits()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("sampling.n"), std::string::npos) << status;
  request.choices = 2;
  const SequenceId id = harness.Submit(request);
  harness.Run();
  EXPECT_TRUE(harness.log(id, 0).finished && harness.log(id, 1).finished);
}

INSTANTIATE_TEST_SUITE_P(StepsAhead, Choices, testing::Values(0, 1));

}  // namespace
}  // namespace baton
