#include "router/choice_output.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/router/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

constexpr uint32_t kSpecial = 26, kFirstHalf = 27, kSecondHalf = 28;

struct Outcome {
  std::string text;
  std::vector<uint32_t> ids;
  v1::GenerateComplete complete;
  uint32_t tokens = 0;
};

// Pushes `ids` until the choice ends; the last is a LENGTH end.
Outcome RunChoice(const v1::SamplingParams& sampling, const std::vector<uint32_t>& ids,
                  bool stream) {
  ChoiceOutput output(LetterTable(), sampling,
                      {.choice = 0, .stream = stream, .return_token_ids = true});
  Outcome outcome;
  for (size_t i = 0; i < ids.size() && !output.ended(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const v1::GenerateChunk chunk =
        output.Push(i + 1 == ids.size() ? LastToken(index, ids[i], v1::FINISH_REASON_LENGTH)
                                        : Token(index, ids[i]));
    EXPECT_TRUE(stream || ChoiceOutput::IsEmpty(chunk));
    outcome.text += chunk.text();
    outcome.ids.insert(outcome.ids.end(), chunk.token_ids().begin(), chunk.token_ids().end());
  }
  outcome.tokens = output.completion_tokens();
  outcome.complete = output.TakeComplete();
  if (!stream) {
    outcome.text = outcome.complete.text();
    outcome.ids.assign(outcome.complete.token_ids().begin(), outcome.complete.token_ids().end());
  }
  return outcome;
}

v1::SamplingParams Stops(const std::vector<std::string>& stops) {
  v1::SamplingParams sampling;
  for (const std::string& stop : stops) sampling.add_stop(stop);
  return sampling;
}

TEST(ChoiceOutput, ShowsWholeCharactersOnly) {
  ChoiceOutput output(LetterTable(), {}, {.stream = true});
  EXPECT_EQ(output.Push(Token(0, kFirstHalf)).text(), "");
  EXPECT_EQ(output.Push(Token(1, kSecondHalf)).text(), "é");
  EXPECT_EQ(output.Push(LastToken(2, kFirstHalf, v1::FINISH_REASON_LENGTH)).text(), "\uFFFD");
}

TEST(ChoiceOutput, SkipsSpecialTokensUnlessAskedForThem) {
  EXPECT_EQ(RunChoice({}, {0, kSpecial, 1}, true).text, "ab");
  EXPECT_EQ(RunChoice({}, {0, kSpecial, 1}, true).ids, (std::vector<uint32_t>{0, kSpecial, 1}));
  v1::SamplingParams sampling;
  sampling.set_skip_special_tokens(false);
  EXPECT_EQ(RunChoice(sampling, {0, kSpecial, 1}, true).text, "a<e>b");
}

TEST(ChoiceOutput, LeavesTheTokenThatEndsItOutOfTextAndIds) {
  v1::SamplingParams sampling = Stops({"zz"});
  sampling.set_skip_special_tokens(false);
  sampling.set_logprobs(0);
  ChoiceOutput output(LetterTable(), sampling, {.return_token_ids = true});
  output.Push(Token(0, 0));
  output.Push(Token(1, 25));  // held back: it may begin "zz"
  output.Push(LastToken(2, kSpecial, v1::FINISH_REASON_STOP));
  EXPECT_EQ(output.completion_tokens(), 3u);
  const v1::GenerateComplete complete = output.TakeComplete();
  EXPECT_EQ(complete.text(), "az");
  EXPECT_EQ(complete.token_ids_size(), 2);
  EXPECT_EQ(complete.logprobs_size(), 2);
  EXPECT_EQ(complete.matched_token_id(), kSpecial);
  EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_STOP);
}

TEST(ChoiceOutput, FillsInTheBytesOfLogprobs) {
  v1::SamplingParams sampling;
  sampling.set_logprobs(1);
  ChoiceOutput output(LetterTable(), sampling, {.stream = true});
  OutputToken token = Token(0, 2);
  token.mutable_token()->set_logprob(-0.5f);
  token.mutable_token()->add_top_logprobs()->set_token_id(3);
  const v1::GenerateChunk chunk = output.Push(token);
  ASSERT_EQ(chunk.logprobs_size(), 1);
  EXPECT_EQ(chunk.logprobs(0).token(), "c");
  EXPECT_EQ(chunk.logprobs(0).logprob(), -0.5f);
  EXPECT_EQ(chunk.logprobs(0).top_logprobs(0).token(), "d");
}

TEST(ChoiceOutput, LooksForStopStringsOnlyAfterMinTokens) {
  v1::SamplingParams sampling = Stops({"b"});
  sampling.set_min_tokens(2);
  const Outcome outcome = RunChoice(sampling, {0, 1, 2, 1, 3}, true);
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.tokens, 4u);
}

// The rule, on the whole text at once: cut at the stop that ends first, nothing else lost, streamed
// or not.
TEST(ChoiceOutput, CutsAtTheFirstStopStringHoweverTheTextArrives) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint32_t> ids(1 + random() % 12);
    std::string whole;
    for (uint32_t& id : ids) whole += std::string(LetterTable().bytes[id = random() % 3]);
    std::vector<std::string> stops(random() % 3);
    for (std::string& stop : stops) {
      for (uint32_t i = 0, n = 1 + random() % 3; i < n; ++i) {
        stop += static_cast<char>('a' + random() % 3);
      }
    }
    size_t end = std::string::npos, begin = std::string::npos;
    for (const std::string& stop : stops) {
      const size_t at = whole.find(stop);
      if (at == std::string::npos) continue;
      const size_t at_end = at + stop.size();
      if (at_end < end || (at_end == end && at < begin)) end = at_end, begin = at;
    }
    v1::SamplingParams sampling = Stops(stops);
    const bool include = random() % 2 == 0;
    sampling.set_include_stop_str_in_output(include);
    const Outcome streamed = RunChoice(sampling, ids, true);
    const Outcome whole_at_once = RunChoice(sampling, ids, false);
    const bool stopped = end != std::string::npos;
    const std::string expected = stopped ? whole.substr(0, include ? end : begin) : whole;
    ASSERT_EQ(streamed.text, expected) << seed;
    ASSERT_EQ(whole_at_once.text, expected) << seed;
    ASSERT_EQ(streamed.ids, whole_at_once.ids) << seed;
    ASSERT_EQ(streamed.ids.size(), stopped ? end : ids.size()) << "one letter a token: " << seed;
    ASSERT_EQ(streamed.complete.finish_reason(),
              stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  }
}

}  // namespace
}  // namespace baton
