#include "common/tokenizer/vocabulary_size.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/tokenizer/vocabulary.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

GgufFile FileWithRows(uint32_t rows) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama").Uint32("llama.vocab_size", rows);
  return *GgufFile::Parse(builder.Build(), "made.gguf", GgufFile::Part::kTokenizer);
}

TEST(VocabularySize, IsTheEmbeddingsWhereTheFileShowsIt) {
  const std::vector<int64_t> kinds = {1, 1, 3};
  EXPECT_EQ(*VocabularySize(FileWithRows(2), kinds, "tokens"), 2u);
  EXPECT_EQ(*VocabularySize(FileWithRows(3), kinds, "tokens"), 3u);
  EXPECT_EQ(*VocabularySize(FileWithRows(9), kinds, "tokens"), 9u);
  const auto silent =
      GgufFile::Parse(GgufBuilder().Build(), "made.gguf", GgufFile::Part::kTokenizer);
  EXPECT_EQ(*VocabularySize(*silent, kinds, "tokens"), 3u);
}

TEST(VocabularySize, TokensThatPlainTextMayBecomeAreNotLeftOut) {
  // Control, user-defined and unused tokens are left out; normal, unknown, byte and undefined not.
  EXPECT_EQ(*VocabularySize(FileWithRows(1), {1, 3, 4, 5}, "tokens"), 1u);
  for (const int64_t kind : {0, 1, 2, 6}) {
    const absl::Status status = VocabularySize(FileWithRows(2), {1, 1, 3, kind}, "tokens").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("tokens has 4 tokens, but the model's embedding has 2 rows, and "
                                 "ordinary text can produce token 3, which has no row; "),
                      HasSubstr("resize the embedding")))
        << kind;
  }
}

TEST(VocabularySize, MoreRowsThanAVocabularyTakesAreRefused) {
  EXPECT_EQ(*VocabularySize(FileWithRows(Vocabulary::kMaxTokens), {1}, "tokens"),
            Vocabulary::kMaxTokens);
  EXPECT_THAT(std::string(VocabularySize(FileWithRows(Vocabulary::kMaxTokens + 1), {1}, "tokens")
                              .status()
                              .message()),
              HasSubstr("has 1048577 rows; at most 1048576 rows are supported"));
}

}  // namespace
}  // namespace baton
