#include "tests/common/grammar/smollm2_grammars.h"

#include "common/base/status_macros.h"
#include "common/grammar/compile_grammar.h"
#include "tests/common/grammar/or_abort.h"

namespace baton {

const Tokenizer& SmolLm2Tokenizer() {
  static const Tokenizer* const tokenizer = [] {
    const std::string path = std::string(BATON_TEST_DATA) + "/tokenizer/smollm2-vocab.gguf";
    const GgufFile file = OrAbort(GgufFile::Open(path, GgufFile::Part::kTokenizer));
    return OrAbort(Tokenizer::Load(file)).release();
  }();
  return *tokenizer;
}

const GrammarVocabulary& SmolLm2Vocabulary() {
  static const GrammarVocabulary* const vocabulary =
      OrAbort(GrammarVocabulary::Parse(SerializeVocabulary(SmolLm2Tokenizer()))).release();
  return *vocabulary;
}

absl::StatusOr<std::unique_ptr<CompiledGrammar>> CompiledFor(const GrammarSpec& spec) {
  BATON_ASSIGN_OR_RETURN(const std::string bytes, CompileGrammar(spec, SmolLm2Vocabulary()));
  return CompiledGrammar::Parse(bytes, SmolLm2Vocabulary());
}

absl::StatusOr<std::unique_ptr<CompiledGrammar>> CompiledSchema(const std::string& schema) {
  return CompiledFor(SpecOf(GrammarKind::kJsonSchema, schema));
}

std::string CompileError(const GrammarSpec& spec) {
  return std::string(CompileGrammar(spec, SmolLm2Vocabulary()).status().message());
}

std::vector<int32_t> TokensOf(const std::string& text) {
  return OrAbort(
      SmolLm2Tokenizer().Encode(text, {.add_special_tokens = false, .parse_special = false}));
}

absl::StatusOr<GrammarState> StateAfter(const CompiledGrammar& grammar, const std::string& text) {
  BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(grammar));
  state.EncodeBy(SmolLm2Tokenizer());
  BATON_RETURN_IF_ERROR(state.Replay(TokensOf(text)));
  return state;
}

bool Allows(const CompiledGrammar& grammar, const std::string& text) {
  const absl::StatusOr<GrammarState> state = StateAfter(grammar, text);
  return state.ok() && state->IsComplete();
}

}  // namespace baton
