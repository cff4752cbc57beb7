#include "common/grammar/grammar_vocabulary.h"

#include "gtest/gtest.h"

#include "common/grammar/string_list.h"
#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

TEST(GrammarVocabularies, HaveTheTokensOfTheModel) {
  EXPECT_EQ(SmolLm2Vocabulary().size(), SmolLm2Tokenizer().vocab_size());
  EXPECT_EQ(SmolLm2Vocabulary().digest(), SmolLm2Tokenizer().digest());
}

TEST(GrammarVocabularies, BytesThatNobodySerialisedAreAnError) {
  EXPECT_FALSE(GrammarVocabulary::Parse("").ok());
  EXPECT_FALSE(GrammarVocabulary::Parse("garbage").ok());
  for (const char* ends : {"2", "-1", "x", "0,9999999999"}) {
    std::string bytes;
    for (const char* text : {"digest", ends, "a", "b"}) AppendString(text, bytes);
    EXPECT_EQ(GrammarVocabulary::Parse(bytes).status().code(), absl::StatusCode::kInvalidArgument)
        << ends;
  }
}

}  // namespace
}  // namespace baton
