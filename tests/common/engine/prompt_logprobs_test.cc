// The log probabilities of a prompt: each is the very float that its token has where it is
// generated.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

SequenceRequest Scoring(std::vector<int32_t> prompt, int top_count, int max_tokens = 2) {
  SequenceRequest request = LocalRequest(std::move(prompt), Greedy(max_tokens));
  request.sampling.prompt_logprobs = top_count;
  return request;
}

void ExpectSameBits(const TokenLogprobs& a, const TokenLogprobs& b) {
  EXPECT_EQ(std::bit_cast<uint32_t>(a.logprob), std::bit_cast<uint32_t>(b.logprob));
  ASSERT_EQ(a.top.size(), b.top.size());
  for (size_t i = 0; i < a.top.size(); ++i) {
    EXPECT_EQ(a.top[i].token_id, b.top[i].token_id);
    EXPECT_EQ(std::bit_cast<uint32_t>(a.top[i].logprob), std::bit_cast<uint32_t>(b.top[i].logprob));
  }
}

void ExpectSameScores(const EventLog& a, const EventLog& b) {
  ASSERT_EQ(a.scores.size(), b.scores.size());
  for (size_t i = 0; i < a.scores.size(); ++i) ExpectSameBits(a.scores[i], b.scores[i]);
}

// A text of `count` tokens that begins with a random one, with the log probabilities of all tokens
// behind the first as an engine tells them that generates one after the other.
struct Generated {
  std::vector<int32_t> text;
  std::vector<TokenLogprobs> logprobs;
};
Generated Generate(EngineHarness& harness, std::mt19937& random, int count, int top_count) {
  Generated generated{.text = RandomTokens(random, 1), .logprobs = {}};
  SequenceRequest request = LocalRequest(generated.text, {.temperature = 1.5f,
                                                          .max_tokens = count - 1,
                                                          .seed = random(),
                                                          .ignore_eos = true,
                                                          .logprobs = top_count});
  for (const OutputToken& token : harness.RunAlone(std::move(request)).tokens) {
    generated.text.push_back(token.token_id);
    generated.logprobs.push_back(*token.logprobs);
  }
  return generated;
}

class PromptLogprobsOfAModel : public testing::TestWithParam<std::string> {};

TEST_P(PromptLogprobsOfAModel, AreThoseThatGeneratingTheTokensTells) {
  std::mt19937 random(7);
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.model = GetParam();
  EngineHarness plain(options);
  for (const int count : {2, 65, 150}) {
    const int top_count = static_cast<int>(random() % 21);
    const Generated generated = Generate(plain, random, count, top_count);
    options.engine.max_num_batched_tokens = 64 + static_cast<int>(random() % 64);
    options.engine.block_size = 16 * (1 + static_cast<int>(random() % 2));
    options.engine.kv_dtype = KvType::kF32;
    EngineHarness harness(options);
    for (const Mode mode : {Mode::kLocal, Mode::kPrefillOnly}) {
      SequenceRequest request = Scoring(generated.text, top_count);
      request.mode = mode;
      const SequenceId id = harness.Submit(std::move(request));
      // Somebody else's rows are in the same steps.
      harness.Submit(LocalRequest(RandomTokens(random, 70), Greedy(5)));
      harness.Run();
      const EventLog& log = harness.log(id);
      ASSERT_EQ(log.scores.size(), generated.logprobs.size());
      for (size_t i = 0; i < log.scores.size(); ++i) {
        ExpectSameBits(log.scores[i], generated.logprobs[i]);
      }
      EXPECT_EQ(log.tokens.size(), mode == Mode::kLocal ? 2u : 1u);
      if (mode == Mode::kPrefillOnly) harness.engine().Release(id);
    }
    harness.Run();
    harness.ExpectNothingHeld();
  }
}

std::vector<std::string> Models() {
  std::vector<std::string> models = {"tiny-llama-f32.gguf", "tiny-llama-q4_0.gguf",
                                     "tiny-qwen2-bias.gguf"};
  for (const char* name : {"gemma3-scaled-f16", "gpt-oss-f16", "granitemoe-f16", "llama-moe-q4_0",
                           "mistral3-f32", "olmo3-f16", "phi3-f16", "qwen3-tied-f16"}) {
    models.push_back(std::string(BATON_TEST_DATA) + "/arch/" + name + ".gguf");
  }
  return models;
}
INSTANTIATE_TEST_SUITE_P(All, PromptLogprobsOfAModel, testing::ValuesIn(Models()),
                         [](const auto& tested) {
                           std::string name = std::filesystem::path(tested.param).stem();
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

TEST(PromptLogprobs, AreWholeWhereThePrefixIsCachedAndThePagesServeOthers) {
  std::mt19937 random(1);
  EngineHarness harness(EngineHarness::SmallOptions());
  const std::vector<int32_t> prompt = RandomTokens(random, 100);
  const EventLog first = harness.RunAlone(Scoring(prompt, 3));
  ASSERT_EQ(first.scores.size(), 99u);
  const EventLog plain = harness.RunAlone(LocalRequest(prompt, Greedy(2)));
  EXPECT_EQ(plain.chunk_ends, std::vector<int>{100});
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, 96u) << "the first has left its pages";
  EXPECT_TRUE(plain.scores.empty());
  const EventLog again = harness.RunAlone(Scoring(prompt, 3));
  ExpectSameScores(again, first);
  ExpectSameTokens(again.tokens, plain.tokens);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, 96u);
}

TEST(PromptLogprobs, ComeOnceForAllChoices) {
  std::mt19937 random(2);
  EngineHarness harness(EngineHarness::SmallOptions());
  const std::vector<int32_t> prompt = RandomTokens(random, 80);
  SequenceRequest request = Scoring(prompt, 0, 20);
  const EventLog alone = harness.RunAlone(request);
  request.choices = 3;
  int told = 0;
  const SequenceId id = harness.Submit(std::move(request), [&](const SequenceEvent& event) {
    if (const auto* scored = std::get_if<PromptScored>(&event)) {
      told += static_cast<int>(scored->tokens.size());
    }
  });
  harness.Run();
  EXPECT_EQ(told, 79);
  ExpectSameScores(harness.log(id), alone);
}

TEST(PromptLogprobs, ComeOnceWhereAPreemptionHasThePromptComputedTwice) {
  std::mt19937 random(5);
  for (const int steps_ahead : {0, 1}) {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.engine.max_num_batched_tokens = 64;
    options.engine.num_kv_blocks = 13;
    options.engine.steps_ahead = steps_ahead;
    EngineHarness harness(options);
    const std::vector<int32_t> prompt = RandomTokens(random, 150);
    const EventLog alone = harness.RunAlone(Scoring(prompt, 2));
    // The older one takes its third block when the other, which has all that are left, is in the
    // middle of its prompt.
    const SequenceId older = harness.Submit(LocalRequest(RandomTokens(random, 16), Greedy(40)));
    while (harness.log(older).tokens.size() < 15) harness.engine().Step();
    const SequenceId id = harness.Submit(Scoring(prompt, 2));
    harness.Run();
    const EventLog& log = harness.log(id);
    EXPECT_EQ(log.preempted, 1);
    ASSERT_GT(log.chunk_ends.size(), 3u);
    EXPECT_LT(log.chunk_ends[0], 150);
    EXPECT_EQ(std::count(log.chunk_ends.begin(), log.chunk_ends.end(), 64), 2);
    EXPECT_EQ(std::count(log.chunk_ends.begin(), log.chunk_ends.end(), 150), 1);
    ExpectSameScores(log, alone);
    ExpectSameTokens(log.tokens, alone.tokens);
  }
}

TEST(PromptLogprobs, OfAPromptWithOutputBehindItAreThoseOfThePromptAlone) {
  std::mt19937 random(3);
  EngineHarness harness(EngineHarness::SmallOptions());
  const std::vector<int32_t> prompt = RandomTokens(random, 70);
  const EventLog alone = harness.RunAlone(Scoring(prompt, 1, 10));
  SequenceRequest resumed = Scoring(prompt, 1, 10);
  for (int i = 0; i < 5; ++i) {
    resumed.token_ids.push_back(alone.tokens[static_cast<size_t>(i)].token_id);
  }
  const EventLog rest = harness.RunAlone(std::move(resumed));
  ExpectSameScores(rest, alone);
  ASSERT_EQ(rest.tokens.size(), 5u);
  EXPECT_EQ(rest.tokens[0].token_id, alone.tokens[5].token_id);
}

TEST(PromptLogprobs, OfASingleTokenAreNone) {
  EngineHarness harness(EngineHarness::SmallOptions());
  const EventLog log = harness.RunAlone(Scoring({5}, 4));
  EXPECT_TRUE(log.scores.empty());
  EXPECT_EQ(log.tokens.size(), 2u);
}

TEST(PromptLogprobs, AreNotComputedByWhoReceivesTheKv) {
  std::mt19937 random(4);
  EngineHarness harness(EngineHarness::SmallOptions());
  const std::vector<int32_t> prompt = RandomTokens(random, 70);
  const EventLog alone = harness.RunAlone(Scoring(prompt, 1, 10));
  const SequenceId id = harness.SubmitWithNanKv(Scoring(prompt, 1, 10));
  // The cached prefix serves it; only the rest is a NaN, which nothing here reads.
  EXPECT_EQ(harness.log(id).start_token, 64);
  EXPECT_TRUE(harness.log(id).scores.empty());
  harness.engine().Release(id);
  harness.Run();
  harness.ExpectNothingHeld();
}

}  // namespace
}  // namespace baton
