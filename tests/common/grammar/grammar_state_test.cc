#include "common/grammar/grammar_state.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<uint32_t> MaskOf(GrammarState& state) {
  std::vector<uint32_t> mask(MaskWords(SmolLm2Vocabulary().size()));
  const absl::Status status = state.FillMask(absl::MakeSpan(mask));
  EXPECT_TRUE(status.ok()) << status;
  return mask;
}

bool IsIn(const std::vector<uint32_t>& mask, int32_t token) {
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

int32_t EndOfText() { return *SmolLm2Tokenizer().eos_id(); }

// Tries every token of the vocabulary after `text`, byte by byte, and compares with the mask, which
// is put together from parts that were computed with the grammar.
TEST(GrammarStates, TheMaskHasExactlyTheTokensThatMayComeNext) {
  const struct {
    GrammarSpec spec;
    std::vector<std::string> texts;
  } cases[] = {
      {SpecOf(GrammarKind::kJsonSchema,
              R"({"type":"object","required":["name","age"],"properties":{
                  "name":{"type":"string","maxLength":9},"age":{"type":"integer","minimum":0},
                  "tags":{"type":"array","items":{"enum":["red","green"]}}}})"),
       {"", "{\"na", R"({"name":")", R"({"name":"Zoë","age":1)", R"({"name":"","age":7,"tags":[)"}},
      {SpecOf(GrammarKind::kRegex, "(ab|abc|[0-9]+)( ü)*"), {"", "a", "ab", "12 "}},
      {GrammarSpec(), {"{\"a\":"}},
  };
  for (const auto& [spec, texts] : cases) {
    const auto grammar = CompiledFor(spec);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    for (const std::string& text : texts) {
      SCOPED_TRACE(text);
      absl::StatusOr<GrammarState> state = StateAfter(**grammar, text);
      ASSERT_TRUE(state.ok()) << state.status();
      const std::vector<uint32_t> mask = MaskOf(*state);
      int allowed = 0;
      for (int32_t token = 0; token < SmolLm2Vocabulary().size(); ++token) {
        if (SmolLm2Tokenizer().IsSpecial(token) && token != EndOfText()) {
          const auto& ends = SmolLm2Tokenizer().end_of_generation_ids();
          if (std::find(ends.begin(), ends.end(), token) == ends.end()) {
            EXPECT_FALSE(IsIn(mask, token)) << token;
            continue;
          }
        }
        absl::StatusOr<GrammarState> next = StateAfter(**grammar, text);
        ASSERT_EQ(next->Accept(token).ok(), IsIn(mask, token))
            << token << " " << SmolLm2Tokenizer().TokenBytes(token);
        allowed += IsIn(mask, token);
      }
      EXPECT_GT(allowed, 0);
    }
  }
}

TEST(GrammarStates, AreAFunctionOfTheTokensAlone) {
  const auto grammar = CompiledSchema(R"({"type":"array","items":{"type":"integer"}})");
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const std::vector<int32_t> tokens = TokensOf("[1, 23,4");
  absl::StatusOr<GrammarState> asked = StateAfter(**grammar, "");
  for (const int32_t token : tokens) {
    // Masks, forced tokens and refused tokens between them change nothing.
    MaskOf(*asked);
    asked->ForcedTokens(4);
    EXPECT_FALSE(asked->Accept(TokensOf("{")[0]).ok());
    ASSERT_TRUE(asked->Accept(token).ok());
  }
  absl::StatusOr<GrammarState> replayed = StateAfter(**grammar, "");
  ASSERT_TRUE(replayed->Replay(tokens).ok());
  EXPECT_EQ(MaskOf(*asked), MaskOf(*replayed));
}

TEST(GrammarStates, AReplayNamesTheTokenThatMayNotStandThere) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "[0-9]+"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = GrammarState::Create(**grammar);
  const absl::Status status = state->Replay({TokensOf("1")[0], TokensOf("a")[0]});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("token 1 of the answer: token "));
}

TEST(GrammarStates, TokensOutsideTheVocabularyAndSpecialOnesMayNotComeNext) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "[^a]*"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = GrammarState::Create(**grammar);
  const int32_t special = 1;  // <|im_start|>
  ASSERT_TRUE(SmolLm2Tokenizer().IsSpecial(special));
  for (const int32_t token : {-1, SmolLm2Vocabulary().size(), special}) {
    EXPECT_EQ(state->Accept(token).code(), absl::StatusCode::kInvalidArgument) << token;
  }
  EXPECT_FALSE(IsIn(MaskOf(*state), special));
}

TEST(GrammarStates, AnAnswerThatCanOnlyEndEnds) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "ok"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "");
  EXPECT_FALSE(state->IsComplete());
  EXPECT_FALSE(IsIn(MaskOf(*state), EndOfText()));
  EXPECT_FALSE(state->Accept(EndOfText()).ok());
  ASSERT_TRUE(state->Replay(TokensOf("ok")).ok());
  EXPECT_TRUE(state->IsComplete());
  EXPECT_FALSE(state->IsTerminated());

  const std::vector<uint32_t> mask = MaskOf(*state);
  const auto& ends = SmolLm2Tokenizer().end_of_generation_ids();
  for (int32_t token = 0; token < SmolLm2Vocabulary().size(); ++token) {
    const bool is_end = std::find(ends.begin(), ends.end(), token) != ends.end();
    EXPECT_EQ(IsIn(mask, token), is_end) << token;
  }
  ASSERT_TRUE(state->Accept(EndOfText()).ok());
  EXPECT_TRUE(state->IsTerminated());
  EXPECT_FALSE(state->Accept(EndOfText()).ok());
  EXPECT_THAT(state->ForcedTokens(4), IsEmpty());
  std::vector<uint32_t> after(MaskWords(SmolLm2Vocabulary().size()));
  EXPECT_EQ(state->FillMask(absl::MakeSpan(after)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(GrammarStates, ForcedTokensSpellTheTextThatAloneMayFollow) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "1234(5|6)"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "");
  const std::vector<int32_t> digits = TokensOf("1234");
  ASSERT_EQ(digits.size(), 4u);
  EXPECT_EQ(state->ForcedTokens(10), digits);
  EXPECT_THAT(state->ForcedTokens(2), ElementsAre(digits[0], digits[1]));
  EXPECT_THAT(state->ForcedTokens(0), IsEmpty());
  ASSERT_TRUE(state->Replay(digits).ok());
  EXPECT_THAT(state->ForcedTokens(10), IsEmpty());
}

// Each beginning of a word may come next, and a blank may be of one token with what follows.
TEST(GrammarStates, ForcedTokensAreThoseOfTheTokenizerUpToOneThatMayBeLonger) {
  const auto grammar =
      CompiledFor(SpecOf(GrammarKind::kRegex, "\\{\"first_name_of_the_owner\": (true|false)\\}"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const std::vector<int32_t> tokens = TokensOf("{\"first_name_of_the_owner\":");
  ASSERT_GT(tokens.size(), 5u);
  EXPECT_EQ(StateAfter(**grammar, "")->ForcedTokens(16), tokens);
  EXPECT_EQ(StateAfter(**grammar, "{\"first_na")->ForcedTokens(16), TokensOf("me_of_the_owner\":"));
  EXPECT_EQ(StateAfter(**grammar, "{\"first_name_of_the_owner\": t")->ForcedTokens(16),
            TokensOf("rue}"));
}

// Both letters begin with one byte.
TEST(GrammarStates, ForcedTokensEndBeforeALetterThatHasTwoWaysOn) {
  const auto grammar = CompiledFor(ChoiceOf({"xy\u00e9", "xy\u00e8"}));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  EXPECT_EQ(StateAfter(**grammar, "")->ForcedTokens(16), TokensOf("xy"));
}

TEST(GrammarStates, ForcedTokensAreToldAgainWhereTheyWereToldBefore) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "(12345)+"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "");
  const std::vector<int32_t> digits = TokensOf("12345");
  for (const int32_t digit : digits) {
    const std::vector<int32_t> forced = state->ForcedTokens(10);
    EXPECT_EQ(state->ForcedTokens(10), forced);
    ASSERT_FALSE(forced.empty());
    EXPECT_EQ(forced.front(), digit);
    ASSERT_TRUE(state->Accept(digit).ok());
  }
  EXPECT_THAT(state->ForcedTokens(10), IsEmpty()) << "the text may end";
}

// What nobody can write: it goes on for ever.
TEST(GrammarStates, ForcedTokensAreBoundedWhereNothingEnds) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kGrammar, "root ::= \"12\" root | \"3\""));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "1");
  EXPECT_THAT(state->ForcedTokens(16), ElementsAre(TokensOf("2")[0]));
}

TEST(GrammarStates, MasksBehindGuessesAreThoseOfTheStatesBehindThem) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "[0-4]{3}[5-9]{2}"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const size_t words = MaskWords(SmolLm2Vocabulary().size());
  const std::vector<int32_t> tokens = TokensOf("01256");
  ASSERT_EQ(tokens.size(), 5u);
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "0");
  const std::vector<uint32_t> before = MaskOf(*state);
  const std::vector<int32_t> guesses(tokens.begin() + 1, tokens.end());
  std::vector<uint32_t> masks(5 * words);
  state->FillMasks(guesses, absl::MakeSpan(masks));
  EXPECT_EQ(MaskOf(*state), before);
  for (size_t i = 0; i <= guesses.size(); ++i) {
    EXPECT_EQ(std::vector<uint32_t>(masks.begin() + static_cast<std::ptrdiff_t>(i * words),
                                    masks.begin() + static_cast<std::ptrdiff_t>((i + 1) * words)),
              MaskOf(*state))
        << i;
    if (i < guesses.size()) {
      ASSERT_TRUE(state->Accept(guesses[i]).ok());
    }
  }
}

TEST(GrammarStates, GuessesCountUpToOneThatIsForbiddenOrEndsTheText) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "1234(5|6)"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "1");
  const auto guesses = [](const std::string& text, std::vector<int32_t> behind) {
    std::vector<int32_t> tokens = TokensOf(text);
    tokens.insert(tokens.end(), behind.begin(), behind.end());
    return tokens;
  };
  EXPECT_EQ(state->CountAllowed({}), 0u);
  EXPECT_EQ(state->CountAllowed(guesses("345", {})), 0u);
  EXPECT_EQ(state->CountAllowed(guesses("237", {})), 2u);
  EXPECT_EQ(state->CountAllowed(guesses("2345", {EndOfText(), EndOfText()})), 4u);
  EXPECT_EQ(state->CountAllowed(guesses("23", {/*special=*/1})), 2u);
  EXPECT_EQ(state->CountAllowed(guesses("23", {-1})), 2u);
  EXPECT_TRUE(state->Replay(guesses("2346", {EndOfText()})).ok()) << "the state was as before";
  EXPECT_EQ(state->CountAllowed(guesses("2", {})), 0u);
  state->Rollback(2);
  EXPECT_EQ(state->CountAllowed(guesses("6", {})), 1u);
}

TEST(GrammarStates, ACopyGoesOnAlone) {
  const auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "(red|green) (tea|day)"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = StateAfter(**grammar, "re");
  GrammarState copy = *state;
  const std::vector<uint32_t> before = MaskOf(*state);
  ASSERT_TRUE(copy.Replay(TokensOf("d tea")).ok());
  EXPECT_TRUE(copy.IsComplete());
  EXPECT_EQ(MaskOf(*state), before);
  EXPECT_TRUE(state->Replay(TokensOf("d day")).ok());
}

TEST(GrammarStates, SurviveTheirGrammar) {
  auto grammar = CompiledFor(SpecOf(GrammarKind::kRegex, "ok"));
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  absl::StatusOr<GrammarState> state = GrammarState::Create(**grammar);
  grammar->reset();
  EXPECT_TRUE(state->Replay(TokensOf("ok")).ok());
}

// Takes seconds to compile.
const CompiledGrammar& Costly() {
  static const CompiledGrammar* const compiled = CompiledFor(CostlyGrammar())->release();
  return *compiled;
}

// Accepts " a" again and again, with the mask before each; returns the first error.
absl::Status CostOf(GrammarState& state) {
  std::vector<uint32_t> mask(MaskWords(SmolLm2Vocabulary().size()));
  for (int i = 0; i < 1000; ++i) {
    if (const absl::Status status = state.FillMask(absl::MakeSpan(mask)); !status.ok())
      return status;
    if (const absl::Status status = state.Accept(TokensOf(" a")[0]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST(GrammarStates, OneWhoseFormCostsMoreThanACallMaySaysSoAndHasFailedForGood) {
  absl::StatusOr<GrammarState> state = StateAfter(Costly(), "a");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_FALSE(MaskOf(*state).empty()) << "a short text is no trouble";
  state->SetBudget({.call = absl::Milliseconds(5), .answer = absl::InfiniteDuration()});
  const absl::Status status = CostOf(*state);
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        "response_format: takes more than 5ms of CPU time for a token; simplify it "
                        "so that fewer of its alternatives match the same text"));
  // Nobody waits for it again, and a copy has failed as well.
  state->SetBudget({});
  GrammarState copy = *state;
  for (GrammarState* failed : {&*state, &copy}) {
    const int32_t token = TokensOf("a")[0];
    EXPECT_EQ(failed->Accept(token), status);
    EXPECT_EQ(failed->CountAllowed({token}), 0u);
    EXPECT_THAT(failed->ForcedTokens(4), IsEmpty());
    std::vector<uint32_t> masks(2 * MaskWords(SmolLm2Vocabulary().size()), ~0u);
    failed->FillMasks({token}, absl::MakeSpan(masks));
    EXPECT_EQ(std::count(masks.begin(), masks.end(), 0u), masks.size());
    failed->Rollback(1);
    EXPECT_FALSE(failed->IsComplete());
    EXPECT_FALSE(failed->IsTerminated());
  }
}

TEST(GrammarStates, OneWhoseFormCostsMoreThanAnAnswerMaySaysSo) {
  absl::StatusOr<GrammarState> state = StateAfter(Costly(), "");
  ASSERT_TRUE(state.ok()) << state.status();
  state->SetBudget({.call = absl::InfiniteDuration(), .answer = absl::Milliseconds(50)});
  GrammarState copy = *state;
  const absl::Status status = CostOf(copy);
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 50ms of CPU time for an answer"));
}

TEST(GrammarStates, OneThatHasStalledGoesOnAsIfItHadNotOnceItIsRestored) {
  absl::StatusOr<GrammarState> state = StateAfter(Costly(), "a few words");
  const std::vector<int32_t> tokens = TokensOf("a few words");
  GrammarState stalled = *state;
  stalled.SetBudget({.at_once = absl::ZeroDuration()});
  EXPECT_TRUE(absl::IsUnavailable(CostOf(stalled)));
  ASSERT_TRUE(stalled.stalled());
  GrammarState copy = stalled;
  const absl::Duration spent = stalled.spent();
  for (GrammarState* restored : {&stalled, &copy}) {
    restored->SetBudget({});
    ASSERT_TRUE(restored->Restore(tokens).ok());
    EXPECT_FALSE(restored->failed());
    EXPECT_EQ(restored->accepted(), tokens.size());
    EXPECT_GE(restored->spent(), spent) << "it counts on";
    EXPECT_EQ(MaskOf(*restored), MaskOf(*state));
  }
}

TEST(GrammarStates, OneThatIsStoppedFails) {
  absl::StatusOr<GrammarState> state = StateAfter(Costly(), "a");
  const std::atomic<bool> stop = true;
  state->SetStop(&stop);
  EXPECT_FALSE(CostOf(*state).ok());
}

}  // namespace
}  // namespace baton
