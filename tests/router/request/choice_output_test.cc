#include "router/request/choice_output.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::OutputToken;

constexpr uint32_t kSpecial = 26, kFirstHalf = 27, kSecondHalf = 28;

struct ChoiceRun {
  std::string text;
  std::vector<uint32_t> ids;
  v1::GenerateComplete complete;
  uint32_t tokens = 0;
};

// Pushes `ids` until the choice ends; the last is a LENGTH end.
ChoiceRun RunChoice(const v1::SamplingParams& sampling, const std::vector<uint32_t>& ids,
                    bool stream, const TokenTable& table = LetterTable()) {
  ChoiceOutput output(table, sampling, {.choice = 0, .stream = stream, .return_token_ids = true});
  ChoiceRun outcome;
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

TEST(ChoiceOutput, BeginsWithThePromptWhereThatIsEchoed) {
  const std::vector<uint32_t> prompt = {25, kSpecial, 25, kFirstHalf};
  const ChoiceOutputOptions options = {
      .choice = 1, .stream = true, .return_token_ids = true, .echoed = &prompt};
  ChoiceOutput output(LetterTable(), Stops({"zz", "cd"}), options);
  const v1::GenerateChunk first = output.Push(Token(0, kSecondHalf));
  EXPECT_EQ(first.text(), "zzé") << "the output completes the prompt's last character";
  EXPECT_EQ(first.token_ids_size(), 1);
  EXPECT_EQ(output.Push(Token(1, 2)).text(), "") << "it may begin a stop string";
  EXPECT_EQ(output.Push(Token(2, 3)).text(), "");
  EXPECT_TRUE(output.ended_by_stop_string());
  EXPECT_EQ(output.completion_tokens(), 3u);

  v1::SamplingParams with_special;
  with_special.set_skip_special_tokens(false);
  ChoiceOutput whole(LetterTable(), with_special, {.echoed = &prompt});
  whole.Push(Token(0, 0));
  whole.Push(LastToken(1, 1, v1::FINISH_REASON_LENGTH));
  EXPECT_EQ(whole.TakeComplete().text(), "z<e>z\uFFFDab");
}

TEST(ChoiceOutput, DropsItsTokenWhereNoOutputIsWanted) {
  const std::vector<uint32_t> prompt = {0, kFirstHalf};
  v1::SamplingParams sampling = Stops({"a"});
  sampling.set_logprobs(1);
  ChoiceOutput output(LetterTable(), sampling,
                      {.return_token_ids = true, .echoed = &prompt, .no_output = true});
  output.Push(LastToken(0, kSecondHalf, v1::FINISH_REASON_STOP));
  EXPECT_EQ(output.completion_tokens(), 0u);
  const v1::GenerateComplete complete = output.TakeComplete();
  EXPECT_EQ(complete.text(), "a\uFFFD");
  EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(complete.matched_stop_case(), v1::GenerateComplete::MATCHED_STOP_NOT_SET);
  EXPECT_EQ(complete.token_ids_size() + complete.logprobs_size(), 0);
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

TEST(ChoiceOutput, KeepsTheTokenThatEndsItWhereStopsAreIncluded) {
  v1::SamplingParams sampling;
  sampling.set_include_stop_str_in_output(true);
  sampling.set_logprobs(0);
  const auto complete = [&](uint32_t stop_token) {
    ChoiceOutput output(LetterTable(), sampling, {.return_token_ids = true});
    output.Push(Token(0, 0));
    output.Push(LastToken(1, stop_token, v1::FINISH_REASON_STOP));
    return output.TakeComplete();
  };
  EXPECT_EQ(complete(kSpecial).text(), "a") << "special tokens are skipped";
  EXPECT_EQ(complete(25).text(), "az");
  sampling.set_skip_special_tokens(false);
  const v1::GenerateComplete done = complete(kSpecial);
  EXPECT_EQ(done.text(), "a<e>");
  EXPECT_EQ(done.token_ids(1), kSpecial);
  EXPECT_EQ(done.logprobs(1).token(), "<e>");
  EXPECT_EQ(done.matched_token_id(), kSpecial);
  sampling.add_stop("e");  // ends before the token does
  EXPECT_EQ(complete(kSpecial).text(), "a<e");
  EXPECT_EQ(complete(kSpecial).matched_stop_str(), "e");
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
  const ChoiceRun outcome = RunChoice(sampling, {0, 1, 2, 1, 3}, true);
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.tokens, 4u);
}

// Tokens of several letters, of one and of none.
const TokenTable& SyllableTable() {
  static const TokenTable kTable{.bytes = {"a", "b", "ab", "ba", "aab", "bbab", ""},
                                 .special = std::vector<bool>(7, false)};
  return kTable;
}

// The rule, on the whole text at once: cut at the stop that ends first behind min_tokens tokens,
// nothing else lost, streamed or not.
TEST(ChoiceOutput, CutsAtTheFirstStopStringThatEndsBehindMinTokensHoweverTheTextArrives) {
  int begun_before_min_tokens = 0;
  for (uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    std::vector<uint32_t> ids(1 + random() % 12);
    std::string whole;
    std::vector<size_t> ends;  // [ids], of each token's text
    for (uint32_t& id : ids) {
      id = static_cast<uint32_t>(random() % SyllableTable().vocab_size());
      whole += std::string(SyllableTable().bytes[id]);
      ends.push_back(whole.size());
    }
    v1::SamplingParams sampling;
    for (uint32_t i = 0, n = random() % 3; i < n; ++i) {
      std::string& stop = *sampling.add_stop();
      for (uint32_t k = 0, size = 1 + random() % 5; k < size; ++k) stop += "ab"[random() % 2];
    }
    const size_t min_tokens = random() % 2 == 0 ? 0 : random() % (ids.size() + 1);
    const size_t passed = min_tokens == 0 ? 0 : ends[min_tokens - 1];
    const bool include = random() % 2 == 0;
    sampling.set_min_tokens(static_cast<uint32_t>(min_tokens));
    sampling.set_include_stop_str_in_output(include);

    size_t end = std::string::npos, begin = std::string::npos;
    for (const std::string& stop : sampling.stop()) {
      const size_t at = whole.find(stop, passed < stop.size() ? 0 : passed - stop.size() + 1);
      if (at == std::string::npos) continue;
      if (const size_t at_end = at + stop.size(); at_end < end || (at_end == end && at < begin)) {
        end = at_end;
        begin = at;
      }
    }
    const bool stopped = end != std::string::npos;
    begun_before_min_tokens += stopped && begin < passed;
    const std::string expected = stopped ? whole.substr(0, include ? end : begin) : whole;
    const auto last = std::lower_bound(ends.begin(), ends.end(), stopped ? end : whole.size() + 1);
    const size_t tokens = stopped ? static_cast<size_t>(last - ends.begin()) + 1 : ids.size();
    for (const bool stream : {true, false}) {
      const ChoiceRun outcome = RunChoice(sampling, ids, stream, SyllableTable());
      ASSERT_EQ(outcome.text, expected) << seed;
      ASSERT_EQ(outcome.ids, std::vector<uint32_t>(ids.begin(), ids.begin() + tokens)) << seed;
      ASSERT_EQ(outcome.complete.finish_reason(),
                stopped ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
    }
  }
  EXPECT_GT(begun_before_min_tokens, 200);
}

}  // namespace
}  // namespace baton
