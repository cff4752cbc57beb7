// Grammars for a SentencePiece vocabulary, whose pieces are written with U+2581 for spaces.
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/grammar/compile_grammar.h"
#include "common/grammar/compiled_grammar.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/common/grammar/or_abort.h"
#include "tests/common/grammar/specs.h"

namespace baton {
namespace {

const Tokenizer& Llama() {
  static const Tokenizer* const tokenizer = [] {
    const std::string path = std::string(BATON_TEST_DATA) + "/tokenizer/llama-spm-vocab.gguf";
    return OrAbort(Tokenizer::Load(OrAbort(GgufFile::Open(path, GgufFile::Part::kTokenizer))))
        .release();
  }();
  return *tokenizer;
}

GrammarState StateOf(const std::string& regex) {
  static const GrammarVocabulary* const vocabulary =
      OrAbort(GrammarVocabulary::Parse(SerializeVocabulary(Llama()))).release();
  const std::string bytes =
      OrAbort(CompileGrammar(SpecOf(GrammarKind::kRegex, regex), *vocabulary));
  GrammarState state =
      OrAbort(GrammarState::Create(*OrAbort(CompiledGrammar::Parse(bytes, *vocabulary))));
  state.EncodeBy(Llama());
  return state;
}

std::vector<int32_t> Continuing(const std::string& text) {
  return OrAbort(Llama().Encode(text, {.add_special_tokens = false, .continues = true}));
}

TEST(SpmGrammar, APieceWithItsSignIsASpaceAndABytePieceIsItsByte) {
  const int32_t the = Continuing(" The").front();
  ASSERT_EQ(Llama().TokenBytes(the), " The");
  EXPECT_TRUE(StateOf(" The").Accept(the).ok());
  EXPECT_FALSE(StateOf("The").Accept(the).ok());
  const std::vector<int32_t> bytes = Continuing("\n\U00050000");
  ASSERT_EQ(bytes.size(), 5u);
  GrammarState state = StateOf("\n\U00050000");
  EXPECT_TRUE(state.Replay(bytes).ok());
  EXPECT_TRUE(state.IsComplete());
}

TEST(SpmGrammar, TheTextThatIsForcedHasNoSpaceInFront) {
  GrammarState state = StateOf("\\{\"first_name_of_the_owner\": (true|false)\\}");
  const std::vector<int32_t> forced = state.ForcedTokens(16);
  ASSERT_GT(forced.size(), 3u);
  std::string text;
  for (const int32_t token : forced) text += std::string(Llama().TokenBytes(token));
  EXPECT_EQ(text.substr(0, 7), "{\"first");
  EXPECT_TRUE(state.Replay(forced).ok());
}

}  // namespace
}  // namespace baton
