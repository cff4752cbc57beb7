// Answers that are held to grammars: each is of its grammar, and the same whatever runs beside it
// and however often it begins again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/common/engine/form_requests.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

std::string TextOf(const EventLog& log) {
  EXPECT_TRUE(log.finished) << log.failure;
  return TinyText(log.token_ids());
}

// Grammars with which a random model comes to an end.
std::vector<GrammarState> Grammars() {
  return {TinyGrammar(SpecOf(GrammarKind::kJsonSchema,
                             R"({"type":"object","required":["day","wet"],"properties":{
                                 "day":{"enum":["today","saturday"]},"wet":{"type":"boolean"},
                                 "n":{"type":"array","maxItems":2,"items":{"enum":[1,20]}}}})")),
          TinyRegex("[a-f]{3,9}(-[0-9]{2}){1,4}"),
          TinyGrammar(ChoiceOf({"here", "there", "over there", "on the red one", "on"})),
          TinyGrammar(SpecOf(GrammarKind::kGrammar, "root ::= \"(\" [a-c]{1,3} root? \")\""))};
}

TEST(AnswersInGrammars, AreOfThemWhateverIsDrawn) {
  EngineHarness harness(WithGrammars());
  std::mt19937 random(1);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto answer = [&](GrammarState grammar) {
      SamplingParams sampling = Drawn(120, seed);
      if (seed % 3 == 0) sampling.temperature = 0;
      return TextOf(
          harness.RunAlone(InGrammar(RandomTokens(random, 9), sampling, std::move(grammar))));
    };
    const std::vector<GrammarState> grammars = Grammars();
    const auto json = nlohmann::json::parse(answer(grammars[0]), nullptr, false);
    ASSERT_FALSE(json.is_discarded());
    EXPECT_TRUE(json["day"] == "today" || json["day"] == "saturday") << json;
    EXPECT_TRUE(json["wet"].is_boolean());
    EXPECT_TRUE(std::regex_match(answer(grammars[1]), std::regex("[a-f]{3,9}(-[0-9]{2}){1,4}")));
    EXPECT_TRUE(std::regex_match(answer(grammars[2]),
                                 std::regex("here|there|over there|on( the red one)?")));
  }
  harness.ExpectNothingHeld();
}

TEST(AnswersInGrammars, EndWhereTheGrammarDoesAndNotBefore) {
  EngineHarness harness(WithGrammars());
  std::mt19937 random(2);
  SamplingParams sampling = Drawn(40, 3);
  sampling.min_tokens = 30;
  sampling.ignore_eos = true;
  const EventLog log =
      harness.RunAlone(InGrammar(RandomTokens(random, 5), sampling, TinyRegex("[0-9]{4}")));
  ASSERT_EQ(log.tokens.size(), 5u) << "four digits, and the end";
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);

  const EventLog cut =
      harness.RunAlone(InGrammar(RandomTokens(random, 5), Drawn(3, 4), TinyRegex("[0-9]{4}")));
  ASSERT_EQ(cut.tokens.size(), 3u);
  EXPECT_EQ(cut.tokens.back().finish_reason, FinishReason::kLength);
}

TEST(AnswersInGrammars, EndWithAStopTokenOfTheRequestAsEver) {
  EngineHarness harness(WithGrammars());
  std::mt19937 random(3);
  SamplingParams sampling = Drawn(40, 3);
  sampling.stop_token_ids = TinyTokens("-");
  const EventLog log =
      harness.RunAlone(InGrammar(RandomTokens(random, 5), sampling, TinyRegex("[0-9]{4}-[0-9]")));
  ASSERT_EQ(log.tokens.size(), 5u);
  EXPECT_EQ(log.tokens.back().token_id, sampling.stop_token_ids[0]);
  EXPECT_EQ(log.tokens.back().finish_reason, FinishReason::kStop);
}

TEST(AnswersInGrammars, TellTheLogProbabilitiesOfTheRawLogits) {
  EngineHarness harness(WithGrammars());
  std::mt19937 random(4);
  const SequenceRequest free = LocalRequest(RandomTokens(random, 30), Drawn(1, 1));
  SequenceRequest held = free;
  held.grammar = TinyRegex("[a-z]{20}");
  const auto expected = harness.RunAlone(free).tokens[0].logprobs;
  const auto logprobs = harness.RunAlone(held).tokens[0].logprobs;
  ASSERT_TRUE(expected && logprobs);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(logprobs->top[i].token_id, expected->top[i].token_id);
    EXPECT_EQ(logprobs->top[i].logprob, expected->top[i].logprob);
  }
}

class HeldToGrammars : public testing::TestWithParam<Way> {
 protected:
  EngineHarness::Options Options() const { return WithGrammars(GetParam()); }
};

// All kinds of sampling, some of several choices, some without a grammar between them.
std::vector<SequenceRequest> Requests(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<GrammarState> grammars = Grammars();
  std::vector<SequenceRequest> requests;
  for (int i = 0; i < count; ++i) {
    SamplingParams sampling = Drawn(70, random());
    if (i % 4 == 1) sampling.temperature = 0;
    if (i % 4 == 2) {
      sampling.top_p = 0.9f;
      sampling.presence_penalty = 0.7f;
      sampling.repetition_penalty = 1.3f;
    }
    requests.push_back(LocalRequest(RandomTokens(random, 10 + 13 * (i % 9)), sampling));
    requests.back().choices = 1 + i % 3;
    if (i % 5 != 4) requests.back().grammar = grammars[static_cast<size_t>(i) % grammars.size()];
  }
  return requests;
}

TEST_P(HeldToGrammars, AnswersAreTheSameWhateverRunsBesideThemAndWhenTheyArePreempted) {
  std::vector<SequenceRequest> requests = Requests(15, 1);
  // These come first and grow until blocks lack, whatever the others do.
  for (int i = 0; i < 4; ++i) {
    requests[static_cast<size_t>(i)].token_ids.resize(10);
    requests[static_cast<size_t>(i)].prompt_length = 10;
    if (i > 0) requests[static_cast<size_t>(i)].grammar = std::nullopt;
    requests[static_cast<size_t>(i)].sampling.ignore_eos = true;
    requests[static_cast<size_t>(i)].sampling.max_tokens = 90;
  }
  const std::vector<EventLog> expected = EachAlone(requests);
  EngineHarness::Options options = Options();
  options.engine.num_kv_blocks = 24;
  options.engine.max_num_batched_tokens = 64;  // long prompts are computed in chunks
  EngineHarness harness(options);
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(harness.Submit(request));
  harness.Run();
  size_t next = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const EventLog& log : harness.logs(ids[i])) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(log.finished) << log.failure;
      ExpectSameTokens(log.tokens, expected[next++].tokens);
    }
  }
  const EngineStats stats = harness.engine().Stats();
  EXPECT_GT(stats.preemptions, 0u);
  if (GetParam().speculation == SpeculationMode::kNgram &&
      GetParam().patience > absl::ZeroDuration()) {
    EXPECT_GE(stats.accepted_guesses, 20u);
    EXPECT_GE(stats.refused_guesses, 20u);
  }
  harness.ExpectNothingHeld();
}

TEST_P(HeldToGrammars, AnswersGoOnTheSameFromAnyOfTheirTokens) {
  std::vector<SequenceRequest> requests = Requests(4, 2);
  for (SequenceRequest& request : requests) request.choices = 1;
  const std::vector<EventLog> expected = EachAlone(requests);
  EngineHarness harness(Options());
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::vector<int32_t> ids = expected[i].token_ids();
    for (size_t known = 1; known < ids.size(); ++known) {
      SequenceRequest resumed = requests[i];
      resumed.token_ids.insert(resumed.token_ids.end(), ids.begin(),
                               ids.begin() + static_cast<std::ptrdiff_t>(known));
      ASSERT_TRUE(resumed.grammar->Replay({ids.data(), known}).ok());
      const std::vector<OutputToken>& all = expected[i].tokens;
      ExpectSameTokens(harness.RunAlone(resumed).tokens,
                       {all.begin() + static_cast<std::ptrdiff_t>(known), all.end()});
    }
  }
}

TEST_P(HeldToGrammars, AnswersAreTheSameWhereTheyAreHandedOver) {
  const std::vector<SequenceRequest> requests = Requests(12, 3);
  const std::vector<EventLog> expected = EachAlone(requests);
  EngineHarness prefill(Options());
  EngineHarness decode(Options());
  size_t next = 0;
  for (SequenceRequest request : requests) {
    const int length = static_cast<int>(request.token_ids.size());
    request.mode = Mode::kPrefillOnly;
    const SequenceId prefilled = prefill.Submit(request);
    prefill.Run();
    std::vector<OutputToken> first;
    for (const EventLog& log : prefill.logs(prefilled)) first.push_back(log.tokens.at(0));
    request.mode = Mode::kReceive;
    const SequenceId id = decode.Submit(request);
    decode.Run();
    decode.engine().OpenReceive(id, "");
    decode.Run();
    CopyKv(prefill.engine().cache(), prefill.log(prefilled).block_table, decode.engine().cache(),
           decode.log(id).block_table, {decode.log(id).start_token, length});
    decode.engine().Commit(id, first);
    decode.Run();
    for (size_t i = 0; i < first.size(); ++i) {
      const EventLog& log = decode.logs(id)[i];
      EXPECT_TRUE(log.finished) << log.failure;
      std::vector<OutputToken> tokens = {first[i]};
      tokens.insert(tokens.end(), log.tokens.begin(), log.tokens.end());
      ExpectSameTokens(tokens, expected[next++].tokens);
    }
    prefill.engine().Release(prefilled);
    prefill.Run();
  }
  prefill.ExpectNothingHeld();
  decode.ExpectNothingHeld();
}

// No spec compiles to such a grammar (common/grammar/dead_ends.h).
TEST_P(HeldToGrammars, AnswersInADeadEndEndThereAtOnceAndAlone) {
  EngineHarness harness(Options());
  std::mt19937 random(7);
  const SequenceId other = harness.Submit(LocalRequest(RandomTokens(random, 9), Drawn(20, 1)));
  SequenceRequest request = InGrammar(RandomTokens(random, 20), Drawn(40, 2),
                                      TinyRegexAsItIs("[a-c]:12345[\\ud83d][\\ude00]d"));
  request.choices = 2;
  const SequenceId id = harness.Submit(request);
  harness.Run();
  for (const EventLog& log : harness.logs(id)) {
    EXPECT_TRUE(absl::IsInvalidArgument(log.failure));
    EXPECT_EQ(log.failure.message(),
              "response_format: at output 7 the grammar allows no token at this place");
    EXPECT_FALSE(log.finished);
    EXPECT_TRUE(std::regex_match(TinyText(log.token_ids()), std::regex("[a-c]:12345")));
  }
  EXPECT_TRUE(harness.log(other).finished);
  harness.ExpectNothingHeld();
}

INSTANTIATE_TEST_SUITE_P(Ways, HeldToGrammars, testing::ValuesIn(WaysOfGrammars()));

TEST(Grammars, RefuseAFirstTokenThatMayNotComeAndFailItsSequenceAlone) {
  for (const int steps_ahead : {0, 1}) {
    EngineHarness harness(WithGrammars({steps_ahead}));
    std::mt19937 random(5);
    const SequenceId other = harness.Submit(LocalRequest(RandomTokens(random, 9), Drawn(20, 1)));
    SequenceRequest request =
        InGrammar(RandomTokens(random, 20), Drawn(9, 2), TinyRegex("[0-9]{8}"));
    request.choices = 2;
    const SequenceId id = harness.SubmitWithNanKv(request);
    harness.engine().Commit(id, {{.output_index = 0, .token_id = TinyTokens("7")[0]},
                                 {.output_index = 0, .token_id = TinyTokens("x")[0]}});
    harness.Run();
    for (const EventLog& log : harness.logs(id)) {
      EXPECT_TRUE(absl::IsInvalidArgument(log.failure));
      EXPECT_NE(log.failure.message().find("is not allowed by the grammar"), std::string::npos)
          << log.failure;
      EXPECT_TRUE(log.tokens.empty());
    }
    EXPECT_TRUE(harness.log(other).finished);
    harness.ExpectNothingHeld();
  }
}

TEST(Grammars, WithoutAWayOnFailTheirSequenceAlone) {
  for (const Mode mode : {Mode::kLocal, Mode::kPrefillOnly}) {
    EngineHarness harness(WithGrammars());
    std::mt19937 random(6);
    const SequenceId other = harness.Submit(LocalRequest(RandomTokens(random, 9), Drawn(20, 1)));
    GrammarState ended = TinyRegex("a");
    ASSERT_TRUE(ended.Replay({TinyTokens("a")[0], TinyEnds()[0]}).ok());
    SequenceRequest request = InGrammar(RandomTokens(random, 20), Drawn(9, 2), ended);
    request.mode = mode;
    const EventLog log = harness.RunAlone(request);
    EXPECT_TRUE(absl::IsInvalidArgument(log.failure));
    EXPECT_EQ(log.failure.message(),
              "response_format: at output 0 the answer is complete, and its grammar allows no "
              "further token");
    EXPECT_TRUE(harness.log(other).finished);
  }
}

TEST(Grammars, AreOfTheModelsVocabularyOrTheRequestIsMalformed) {
  EngineHarness harness(WithGrammars());
  EngineLimits limits = harness.engine().limits();
  const SequenceRequest request = InGrammar({5}, Drawn(9, 2), TinyRegex("a"));
  EXPECT_TRUE(IsWellFormed(request, limits));
  ++limits.vocab_size;
  EXPECT_FALSE(IsWellFormed(request, limits));
}

}  // namespace
}  // namespace baton
