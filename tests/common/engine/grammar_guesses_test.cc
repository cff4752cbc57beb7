// Guesses for an answer that is held to a grammar.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/engine_parts.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

EngineHarness::Options GuessingIn(SpeculationMode speculation) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.speculation = speculation;
  options.engine.end_of_generation_ids = TinyEnds();
  return options;
}

SequenceRequest Request(uint64_t seed, const GrammarState& grammar) {
  SequenceRequest request = LocalRequest(
      TinyTokens("it is on"),
      {.temperature = 1, .max_tokens = 80, .seed = seed, .ignore_eos = true, .logprobs = 2});
  request.grammar = grammar;
  return request;
}

// The forced digits of each row, in this vocabulary tokens of one byte.
TEST(ForcedTokens, AllComeTrueAndChangeNothing) {
  EngineHarness plain(GuessingIn(SpeculationMode::kNone));
  const GrammarState grammar = TinyRegex("(a1234567|b7654321|c2222222|d9876543){3,7}");
  for (const SpeculationMode mode : {SpeculationMode::kNgram, SpeculationMode::kAuto}) {
    EngineHarness harness(GuessingIn(mode));
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const EventLog log = harness.RunAlone(Request(seed, grammar));
      EXPECT_TRUE(log.finished) << log.failure;
      ExpectSameTokens(log.tokens, plain.RunAlone(Request(seed, grammar)).tokens);
    }
    if (mode == SpeculationMode::kNgram) {
      EXPECT_GE(harness.engine().Stats().accepted_guesses, 20u);
    }
  }
}

TEST(ForcedTokens, AreNotGuessedWhereNobodyGuesses) {
  EngineHarness harness(GuessingIn(SpeculationMode::kAuto));
  SequenceRequest request = Request(1, TinyRegex("(1234567)+"));
  request.speculation = SpeculationMode::kNone;
  const EventLog log = harness.RunAlone(request);
  EXPECT_EQ(log.accepted_guesses + log.refused_guesses, 0);
}

// Proposes the same tokens always.
class FixedProposer final : public Proposer {
 public:
  explicit FixedProposer(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
  std::vector<int32_t> Propose(absl::Span<const int32_t>, int most) override {
    return {tokens_.begin(), tokens_.begin() + std::min(most, static_cast<int>(tokens_.size()))};
  }

 private:
  const std::vector<int32_t> tokens_;
};

// The guesses of the step behind the first output, of an answer in `expression`.
std::vector<int32_t> GuessesOf(const std::string& expression, const std::string& proposed) {
  EngineParts parts(0, [&] { return std::make_unique<FixedProposer>(TinyTokens(proposed)); });
  SequenceRequest request = parts.Request(20, 30, SequenceRequest::Mode::kLocal);
  request.grammar = TinyRegex(expression);
  parts.sequences.Add(1, TestSequences::Trust(std::move(request)));
  Schedule schedule = parts.Next(128);
  parts.pipeline.Run(std::move(schedule));
  schedule = parts.Next(128);
  parts.guesser.AddTo(schedule, 128);
  return schedule.batch.at(0).guesses;
}

TEST(GuessesInAGrammar, AreCutBeforeOneThatItForbids) {
  EXPECT_EQ(GuessesOf("[0-9]{3}[a-c]{9}", "12xy"), TinyTokens("12"));
  EXPECT_EQ(GuessesOf("[0-9]{3}[a-c]{9}", "x12"), std::vector<int32_t>());
  EXPECT_EQ(GuessesOf("[0-9]{3}[a-c]{9}", "12ab"), TinyTokens("12ab"));
}

TEST(GuessesInAGrammar, AreTheForcedOnesFirstAndWhatTheProposerExpectsBehindThem) {
  EXPECT_EQ(GuessesOf("[0-9]123(4|5)6", "999"), TinyTokens("123"));
  EXPECT_EQ(GuessesOf("[0-9]123(4|5)6", "12345"), TinyTokens("1234")) << "5 may not follow";
  EXPECT_EQ(GuessesOf("[0-9]123(4|5)6", "123569"), TinyTokens("12356"));
  EXPECT_EQ(GuessesOf("[0-9]123(4|5)6", "12"), TinyTokens("123"));
}

// What n-grams expect does not come; so the length goes to zero for them, but not for forced ones.
TEST(ForcedTokens, AreGuessedHoweverOftenOthersWereRefused) {
  EngineParts parts(0, [] { return std::make_unique<FixedProposer>(TinyTokens("z")); });
  SequenceRequest request = parts.Request(20, 90, SequenceRequest::Mode::kLocal);
  request.grammar = TinyRegex("[0-9][a-z]123456789");
  Sequence& sequence = parts.sequences.Add(1, TestSequences::Trust(std::move(request)));
  parts.pipeline.Run(parts.Next(128));
  Guesser guesser(
      {.mode = SpeculationMode::kAuto,
       .most_samples = 64,
       .make_proposer = [] { return std::make_unique<FixedProposer>(TinyTokens("z")); }},
      parts.ledger);
  const auto guesses = [&] {
    guesser.Continue(sequence);
    Schedule schedule = parts.Next(128);
    guesser.AddTo(schedule, 128);
    return schedule.batch.at(0);
  };
  for (int i = 0; i < 40; ++i) sequence.guesses.acceptance.Observe(0, /*refused=*/true);
  EXPECT_EQ(guesses().guess_count(), 0);
  ASSERT_TRUE(sequence.tokens.AddOutput(TinyTokens("q")[0]).ok());
  sequence.kv.computed_tokens = sequence.tokens.count() - 1;
  const double rate = sequence.guesses.acceptance.rate();
  const ScheduledTokens forced = guesses();
  EXPECT_EQ(forced.guesses, TinyTokens("123456789"));
  guesser.Checked(forced, 9, {});
  EXPECT_EQ(sequence.guesses.acceptance.rate(), rate) << "they say nothing about the others";
}

}  // namespace
}  // namespace baton
