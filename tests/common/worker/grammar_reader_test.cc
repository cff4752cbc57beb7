#include "common/worker/grammar_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/compile_grammar.h"
#include "common/net/metrics.h"
#include "common/rpc/status.h"
#include "common/worker/convert.h"
#include "common/worker/worker_metrics.h"
#include "tests/common/grammar/smollm2_grammars.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class GrammarReaderTest : public ::testing::Test {
 protected:
  static const GrammarReader& Reader() {
    static const auto* const reader = GrammarReader::Create(SmolLm2Tokenizer(), {})->release();
    return *reader;
  }
  static const std::string& Bytes() {
    static const auto* const bytes = new std::string(
        *CompileGrammar(SpecOf(GrammarKind::kRegex, "yes|no, never"), SmolLm2Vocabulary()));
    return *bytes;
  }
  static absl::StatusOr<GrammarState> Read(absl::string_view grammar,
                                           absl::Span<const int32_t> outputs = {},
                                           absl::string_view cache_salt = "salt") {
    return Reader().Read({.grammar = grammar, .cache_salt = cache_salt}, outputs);
  }
  static std::string FieldOf(const absl::Status& status) {
    const auto violations = FieldViolations(status);
    return violations.size() == 1 ? violations[0].field : status.ToString();
  }
};

TEST_F(GrammarReaderTest, TheStateGoesOnBehindTheTokensOfTheAnswer) {
  const std::vector<int32_t> all = TokensOf("no, never");
  ASSERT_GT(all.size(), 1u);
  for (size_t have = 0; have < all.size(); ++have) {
    auto state = Read(Bytes(), absl::MakeConstSpan(all).subspan(0, have));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(state->Replay(absl::MakeConstSpan(all).subspan(have)).ok());
    EXPECT_TRUE(state->IsComplete());
  }
}

TEST_F(GrammarReaderTest, TheStateKnowsWhichTokensSpellWhatTheGrammarForces) {
  auto state = Read(Bytes(), TokensOf("no"));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->ForcedTokens(16), TokensOf(", never"));
}

TEST_F(GrammarReaderTest, DamagedBytesAreNamed) {
  std::string damaged = Bytes();
  damaged[damaged.size() / 2] ^= 1;
  const absl::Status status = Read(damaged).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), StartsWith("sequence.grammar: "));
  EXPECT_EQ(Read("no grammar").status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(GrammarReaderTest, AGrammarForAnotherVocabularyIsNamed) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", {"a", "b", "<|end|>"})
      .Int32s("tokenizer.ggml.token_type", {1, 1, 3})
      .Texts("tokenizer.ggml.merges", {})
      .Uint32("tokenizer.ggml.eos_token_id", 2);
  const auto file = GgufFile::Parse(builder.Build(), "small.gguf", GgufFile::Part::kTokenizer);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto tokenizer = Tokenizer::Load(*file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto reader = GrammarReader::Create(**tokenizer, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::Status status =
      (*reader)->Read({.grammar = Bytes(), .cache_salt = "salt"}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), StartsWith("sequence.grammar: "));
}

TEST_F(GrammarReaderTest, AnAnswerThatDoesNotFitOrHasEndedIsNamed) {
  EXPECT_EQ(FieldOf(Read(Bytes(), TokensOf("maybe")).status()), "sequence.token_ids");
  std::vector<int32_t> ended = TokensOf("yes");
  ended.push_back(SmolLm2Tokenizer().end_of_generation_ids().front());
  EXPECT_EQ(FieldOf(Read(Bytes(), ended).status()), "sequence.token_ids");
}

TEST_F(GrammarReaderTest, AnAnswerThatTakesLongToReplayIsLeftToTheEngine) {
  const std::string costly = *CompileGrammar(CostlyGrammar(), SmolLm2Vocabulary());
  const auto state = Read(costly, std::vector<int32_t>(400, TokensOf(" a")[0]));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->stalled());
  EXPECT_LT(state->spent(), GrammarBudget().call);
}

TEST_F(GrammarReaderTest, ATenantDoesNotHaveWhatWasReadForAnother) {
  const auto hits_of = [](absl::string_view grammar, absl::string_view cache_salt) {
    const uint64_t before = Reader().stats().hits;
    EXPECT_TRUE(Read(grammar, {}, cache_salt).ok());
    return Reader().stats().hits - before;
  };
  const std::string other = *CompileGrammar(SpecOf(GrammarKind::kRegex, "a"), SmolLm2Vocabulary());
  EXPECT_EQ(hits_of(Bytes(), "tenant a"), 0u);
  EXPECT_EQ(hits_of(Bytes(), "tenant b"), 0u);
  EXPECT_EQ(hits_of(Bytes(), "tenant a"), 1u);
  EXPECT_EQ(hits_of(Bytes(), "tenant b"), 1u);
  EXPECT_EQ(hits_of(other, "tenant b"), 0u);
}

TEST_F(GrammarReaderTest, ItsMetricsTellWhatWasReadBefore) {
  const auto reader = GrammarReader::Create(SmolLm2Tokenizer(), {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  Metrics metrics("decode");
  AddGrammarMetrics(metrics, **reader);
  EXPECT_THAT(metrics.Scrape(),
              HasSubstr("baton_grammar_cache_bytes{model_name=\"\",role=\"decode\"} 0\n"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE((*reader)->Read({Bytes(), "salt"}, {}).ok());
  const std::string page = metrics.Scrape();
  EXPECT_THAT(page,
              HasSubstr("baton_grammar_cache_queries_total{model_name=\"\",role=\"decode\"} 3\n"));
  EXPECT_THAT(page,
              HasSubstr("baton_grammar_cache_hits_total{model_name=\"\",role=\"decode\"} 2\n"));
  EXPECT_THAT(page,
              Not(HasSubstr("baton_grammar_cache_bytes{model_name=\"\",role=\"decode\"} 0\n")));
}

TEST_F(GrammarReaderTest, ASequenceIsReadWithTheStateBehindItsOutputsAlone) {
  constexpr EngineLimits kManyIds = {
      .vocab_size = 49152, .max_model_len = 64, .block_size = 16, .total_blocks = 4};
  internal::v1::SequenceSpec spec = GoodSpec();
  spec.clear_token_ids();
  for (const int32_t id : TokensOf("Is it so? no")) spec.add_token_ids(static_cast<uint32_t>(id));
  spec.set_prompt_length(static_cast<uint32_t>(spec.token_ids_size()));
  for (const int32_t id : TokensOf("no")) spec.add_token_ids(static_cast<uint32_t>(id));
  spec.set_grammar(Bytes());
  auto read = SequenceFromProto(spec, kManyIds, SequenceRequest::Mode::kReceive, &Reader());
  ASSERT_TRUE(read.ok()) << read.status();
  SequenceRequest request = std::move(*read).Take();
  ASSERT_TRUE(request.grammar.has_value());
  EXPECT_TRUE(request.grammar->Replay(TokensOf(", never")).ok());
  EXPECT_TRUE(request.grammar->IsComplete());
  EXPECT_EQ(
      SequenceFromProto(spec, kManyIds, SequenceRequest::Mode::kReceive, nullptr).status().code(),
      absl::StatusCode::kFailedPrecondition);
  EngineLimits other_rows = kManyIds;
  other_rows.vocab_size = 49153;
  const absl::Status misfit =
      SequenceFromProto(spec, other_rows, SequenceRequest::Mode::kReceive, &Reader()).status();
  EXPECT_EQ(misfit.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(misfit.message()),
      StartsWith(
          "sequence.grammar: was compiled for 49152 tokens, but this worker's model has 49153; "));
  spec.clear_grammar();
  read = SequenceFromProto(spec, kManyIds, SequenceRequest::Mode::kReceive, nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->request().grammar.has_value());
}

}  // namespace
}  // namespace baton
