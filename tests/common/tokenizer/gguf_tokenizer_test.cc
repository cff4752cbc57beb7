#include "common/tokenizer/gguf_tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GgufFile TokenizerFile(const GgufBuilder& builder) {
  return *GgufFile::Parse(builder.Build(), "made.gguf", GgufFile::Part::kTokenizer);
}

absl::StatusOr<TokenizerParts> PartsOf(const GgufBuilder& builder) {
  return ReadGgufTokenizer(TokenizerFile(builder));
}

// The token whose literal `text` is; nullopt: there is none.
std::optional<int32_t> LiteralIn(const TokenizerParts& parts, absl::string_view text,
                                 bool trusted) {
  const TextRange whole = {0, text.size()};
  LiteralMatcher::Search search(parts.literals, text, {&whole, trusted ? size_t{1} : size_t{0}});
  const auto match = search.Next(0);
  if (!match.has_value() || match->size != text.size()) return std::nullopt;
  return match->id;
}

TEST(GgufTokenizer, PartsAreThoseThatTheKeysName) {
  const auto parts = PartsOf(Small("gpt-2")
                                 .Uint32("tokenizer.ggml.bos_token_id", 4)
                                 .Uint32("tokenizer.ggml.eos_token_id", 5)
                                 .Bool("tokenizer.ggml.add_eos_token", true)
                                 .Text("tokenizer.chat_template", "plain")
                                 .Text("tokenizer.chat_template.tool_use", "tools"));
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->vocabulary->size(), 10);
  EXPECT_EQ(parts->bos_id, 4);
  EXPECT_EQ(parts->eos_id, 5);
  EXPECT_FALSE(parts->add_bos);
  EXPECT_TRUE(parts->add_eos);
  EXPECT_FALSE(parts->adds_space_prefix);
  EXPECT_THAT(parts->end_of_generation_ids, ElementsAre(5, 8)) << "the file's, and <|im_end|>";
  EXPECT_EQ(parts->chat_template, "plain");
  EXPECT_EQ(parts->tool_chat_template, "tools");
  EXPECT_EQ(LiteralIn(*parts, "<u>", /*trusted=*/false), 6);
  EXPECT_EQ(LiteralIn(*parts, "<s>", false), std::nullopt) << "it counts in trusted text only";
  EXPECT_EQ(LiteralIn(*parts, "<s>", true), 4);
}

TEST(GgufTokenizer, TheSchemeSaysWhetherBosIsAddedWhereTheFileDoesNot) {
  EXPECT_FALSE(PartsOf(Small("llama-bpe"))->add_bos) << "there is no such token";
  GgufBuilder builder = Small("llama-bpe").Uint32("tokenizer.ggml.bos_token_id", 4);
  EXPECT_TRUE(PartsOf(builder)->add_bos);
  EXPECT_FALSE(PartsOf(builder.Bool("tokenizer.ggml.add_bos_token", false))->add_bos);
}

TEST(GgufTokenizer, SentencePiecesAddASpaceUnlessTheFileSaysNo) {
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", "llama")
      .Texts("tokenizer.ggml.tokens", {"<s>", "▁", "a"})
      .Int32s("tokenizer.ggml.token_type", {3, 1, 1})
      .Array<float>("tokenizer.ggml.scores", 6, {0, -1, -2})
      .Uint32("tokenizer.ggml.bos_token_id", 0);
  const auto parts = PartsOf(builder);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_TRUE(parts->add_bos);
  EXPECT_TRUE(parts->adds_space_prefix);
  EncodedText encoded;
  parts->encoder->Encode({.text = "a", .offset = 0, .begins = true}, encoded);
  EXPECT_THAT(encoded.ids, ElementsAre(1, 2));
  EXPECT_FALSE(PartsOf(builder.Bool("tokenizer.ggml.add_space_prefix", false))->adds_space_prefix);
}

TEST(GgufTokenizer, SpecialTokensThatAreTooLongTogetherAreRefused) {
  constexpr size_t kBytes = 1000;
  const auto parts_of = [](size_t count) {
    std::vector<std::string> texts = {"a", "b", "ab"};
    std::vector<int32_t> kinds = {1, 1, 1};
    for (size_t i = 0; i < count; ++i) {
      const std::string number = absl::StrCat(i);
      texts.push_back(number + std::string(kBytes - number.size(), 'x'));
      kinds.push_back(3);
    }
    return PartsOf(Scheme("gpt-2")
                       .Texts("tokenizer.ggml.tokens", texts)
                       .Int32s("tokenizer.ggml.token_type", kinds)
                       .Texts("tokenizer.ggml.merges", {"a b"}));
  };
  const size_t most = LiteralMatcher::kMaxTotalBytes / kBytes;
  EXPECT_TRUE(parts_of(most).ok()) << parts_of(most).status();
  const absl::Status refused = parts_of(most + 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("tokenizer.ggml.tokens: the 8389 special"));
}

// Small with an embedding of so many rows.
GgufBuilder WithRows(uint64_t rows) {
  return Small("gpt-2").TensorWithData("token_embd.weight", {1, rows}, 0,
                                       std::string(4 * rows, 'x'));
}

TEST(GgufTokenizer, HasATokenForEachRowOfTheEmbeddingAndNoOther) {
  GgufBuilder more = Scheme("gpt-2")
                         .Texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "<u>"})
                         .Int32s("tokenizer.ggml.token_type", {1, 1, 1, 3, 4})
                         .Texts("tokenizer.ggml.merges", {"a b"})
                         .TensorWithData("token_embd.weight", {1, 3}, 0, std::string(12, 'x'));
  const auto fewer = PartsOf(more);
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_EQ(fewer->vocabulary->size(), 3);
  EXPECT_EQ(fewer->listed_tokens, 5u);
  EXPECT_EQ(LiteralIn(*fewer, "<u>", true), std::nullopt);
  EXPECT_EQ(LiteralIn(*fewer, "<s>", true), std::nullopt);
  const auto padded = PartsOf(WithRows(12));
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_EQ(padded->vocabulary->size(), 12);
  EXPECT_EQ(padded->vocabulary->kind(11), TokenKind::kUnused);
  EXPECT_EQ(padded->vocabulary->bytes(11), "");
  EXPECT_EQ(PartsOf(WithRows(9)).status().code(), absl::StatusCode::kInvalidArgument)
      << "text may become abb";
}

TEST(GgufTokenizer, PiecesBeyondTheRowsNeedNoScores) {
  const auto pieces = [](uint64_t rows) {
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "llama")
        .Texts("tokenizer.ggml.tokens", {"a", "b", "<pad>"})
        .Int32s("tokenizer.ggml.token_type", {1, 1, 3})
        .Array<float>("tokenizer.ggml.scores", 6, {0, -1, -2})
        .Bool("tokenizer.ggml.add_bos_token", false)
        .TensorWithData("token_embd.weight", {1, rows}, 0, std::string(4 * rows, 'x'));
    return PartsOf(builder);
  };
  for (const uint64_t rows : {2u, 3u, 7u}) {
    const auto parts = pieces(rows);
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->vocabulary->size(), static_cast<int>(rows));
  }
}

TEST(GgufTokenizer, TheDigestDiffersWithTheRowsOnlyWhereTheyAreNotTheTokens) {
  const auto digest = [](const GgufBuilder& builder) { return (*Load(builder))->digest(); };
  EXPECT_EQ(digest(WithRows(10)), digest(Small("gpt-2")));
  EXPECT_NE(digest(WithRows(11)), digest(Small("gpt-2")));
  EXPECT_NE(digest(WithRows(11)), digest(WithRows(12)));
}

TEST(GgufTokenizer, AFaultOfASpecialTokenNamesItsPlace) {
  EXPECT_EQ(PartsOf(Small("gpt-2").Int32s("tokenizer.ggml.eos_token_ids", {5, 10})).status(),
            absl::InvalidArgumentError("tokenizer.ggml.eos_token_ids[1] is 10, but the vocabulary "
                                       "has 10 tokens"));
  TokenizerParts parts;
  parts.vocabulary = std::make_unique<const Vocabulary>(
      *Vocabulary::Create({"a", std::string(1025, 'x')}, {1, 3}));
  EXPECT_EQ(ReadSpecialTokens(TokenizerFile(GgufBuilder()), "list", parts),
            absl::InvalidArgumentError("list[1], a special token, has 1025 bytes; at most 1024 are "
                                       "supported"));
  GgufBuilder other;
  other.Text("tokenizer.ggml.model", "bert");
  EXPECT_EQ(PartsOf(other).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace baton
