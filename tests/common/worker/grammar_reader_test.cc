#include "common/worker/grammar_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/grammar/compile_grammar.h"
#include "common/worker/convert.h"
#include "tests/common/grammar/smollm2_grammars.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/support/field_violations.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::StartsWith;

class GrammarReaderTest : public ::testing::Test {
 protected:
  static const GrammarReader& Reader() {
    static const auto* const reader = GrammarReader::Create(SmolLm2Tokenizer())->release();
    return *reader;
  }
  static const std::string& Bytes() {
    static const auto* const bytes = new std::string(
        *CompileGrammar(SpecOf(GrammarKind::kRegex, "yes|no, never"), SmolLm2Vocabulary()));
    return *bytes;
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
    auto state = Reader().Read(Bytes(), absl::MakeConstSpan(all).subspan(0, have));
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(state->Replay(absl::MakeConstSpan(all).subspan(have)).ok());
    EXPECT_TRUE(state->IsComplete());
  }
}

TEST_F(GrammarReaderTest, DamagedBytesAreNamed) {
  std::string damaged = Bytes();
  damaged[damaged.size() / 2] ^= 1;
  const absl::Status status = Reader().Read(damaged, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), StartsWith("sequence.grammar: "));
  EXPECT_EQ(Reader().Read("no grammar", {}).status().code(), absl::StatusCode::kDataLoss);
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
  const auto reader = GrammarReader::Create(**tokenizer);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const absl::Status status = (*reader)->Read(Bytes(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), StartsWith("sequence.grammar: "));
}

TEST_F(GrammarReaderTest, AnAnswerThatDoesNotFitOrHasEndedIsNamed) {
  EXPECT_EQ(FieldOf(Reader().Read(Bytes(), TokensOf("maybe")).status()), "sequence.token_ids");
  std::vector<int32_t> ended = TokensOf("yes");
  ended.push_back(SmolLm2Tokenizer().end_of_generation_ids().front());
  EXPECT_EQ(FieldOf(Reader().Read(Bytes(), ended).status()), "sequence.token_ids");
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
  spec.clear_grammar();
  read = SequenceFromProto(spec, kManyIds, SequenceRequest::Mode::kReceive, nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_FALSE(read->request().grammar.has_value());
}

}  // namespace
}  // namespace baton
