#include "common/tokenizer/vocabulary.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<absl::string_view>;

std::string CreateError(const Texts& texts, const std::vector<int64_t>& kinds) {
  return std::string(Vocabulary::Create(texts, kinds).status().message());
}

TEST(Vocabulary, RefusesArraysThatDoNotFit) {
  EXPECT_THAT(CreateError({}, {}), HasSubstr("tokenizer.ggml.tokens has 0 entries"));
  EXPECT_THAT(CreateError({"a", "b"}, {1}), HasSubstr("tokenizer.ggml.token_type has 1 entries"));
  EXPECT_THAT(CreateError({"a", "b"}, {1, 7}), HasSubstr("tokenizer.ggml.token_type[1] is 7"));
  EXPECT_THAT(CreateError({"a"}, {-1}), HasSubstr("tokenizer.ggml.token_type[0] is -1"));
  EXPECT_THAT(CreateError(Texts(Vocabulary::kMaxTokens + 1, "a"), {}),
              HasSubstr("1048577 entries"));
}

TEST(Vocabulary, TokensStandForBytesAndSpecialOnesForTheirLiteral) {
  const auto vocabulary =
      Vocabulary::Create({"Ġthe", "<|é|>", "Ġ", "Ġuser", "日本", ""}, {1, 3, 2, 4, 5, 1});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->bytes(0), " the");
  EXPECT_EQ(vocabulary->bytes(1), "<|é|>");
  EXPECT_EQ(vocabulary->bytes(2), "Ġ");
  EXPECT_EQ(vocabulary->bytes(3), "Ġuser");
  EXPECT_EQ(vocabulary->bytes(4), "日本");
  EXPECT_EQ(vocabulary->bytes(5), "");
  EXPECT_TRUE(vocabulary->IsSpecial(1));
  EXPECT_TRUE(vocabulary->IsSpecial(2));
  EXPECT_FALSE(vocabulary->IsSpecial(3));
}

TEST(Vocabulary, PlainTextFindsNoSpecialToken) {
  const auto vocabulary = Vocabulary::Create({"hi", "hello", "日", ""}, {3, 2, 1, 1});
  ASSERT_TRUE(vocabulary.ok());
  for (const char* text : {"hi", "hello", "日", ""}) {
    EXPECT_EQ(vocabulary->Find(text), std::nullopt) << text;
  }
}

TEST(Vocabulary, OfEqualTokensTheLowestIdCounts) {
  const auto vocabulary = Vocabulary::Create({"a", "b", "a"}, {3, 1, 1});
  EXPECT_EQ(vocabulary->Find("a"), 2);
  const auto twice = Vocabulary::Create({"a", "a"}, {});
  EXPECT_EQ(twice->Find("a"), 0);
}

TEST(Vocabulary, InSentencePiecesSpellingAPlainSpaceIsNoSpaceOfText) {
  const auto vocabulary = Vocabulary::Create({" a", "▁a", "<0x0A>", "<u>", "▁"}, {1, 1, 6, 4, 5},
                                             Vocabulary::Spelling::kSentencePiece);
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_EQ(vocabulary->Find(" a"), 1);
  EXPECT_EQ(vocabulary->bytes(0), " a");
  EXPECT_EQ(vocabulary->bytes(1), " a");
  EXPECT_EQ(vocabulary->bytes(2), "\n");
  EXPECT_EQ(vocabulary->Find("\n"), std::nullopt);
  EXPECT_EQ(vocabulary->byte_piece(10), 2);
  EXPECT_EQ(vocabulary->byte_piece(11), std::nullopt);
  EXPECT_EQ(vocabulary->Find("<u>"), std::nullopt);
  EXPECT_EQ(vocabulary->Find(" "), 4);
}

TEST(Vocabulary, MergesMustJoinTokensOfPlainText) {
  const auto vocabulary = Vocabulary::Create({"a", "b", "ab", "ba", "Ġ", "Ġa"}, {1, 1, 1, 3, 1, 1});
  ASSERT_TRUE(vocabulary.ok());
  const auto merges = vocabulary->ResolveMerges({"a b", "Ġ a"});
  ASSERT_TRUE(merges.ok()) << merges.status();
  EXPECT_EQ(merges->at(0).merged, 2);
  EXPECT_EQ(merges->at(1).left, 4);
  EXPECT_EQ(merges->at(1).merged, 5);
  const auto error = [&](absl::string_view merge) {
    return std::string(vocabulary->ResolveMerges({"a b", merge}).status().message());
  };
  for (const char* merge : {"", " ", "ab", "a ", " a"}) {
    EXPECT_THAT(error(merge), HasSubstr("merges[1]")) << merge;
    EXPECT_THAT(error(merge), HasSubstr("is not two tokens")) << merge;
  }
  EXPECT_THAT(error("a b c"), HasSubstr("outside the byte alphabet"));
  EXPECT_THAT(error("日 a"), HasSubstr("outside the byte alphabet"));
  EXPECT_THAT(error("a x"), HasSubstr("joins a text that is not a plain-text token"));
  EXPECT_THAT(error("b b"), HasSubstr("makes a text that is not a plain-text token"));
  EXPECT_THAT(error("b a"),
              HasSubstr("makes a text that is not a plain-text token"));  // a control token
}

}  // namespace
}  // namespace baton
