#include "tests/common/grammar/tiny_grammars.h"

#include <memory>

#include "common/base/status_macros.h"
#include "common/grammar/compile_grammar.h"
#include "common/grammar/compiled_grammar.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/common/grammar/or_abort.h"
#include "xgrammar/compiler.h"

namespace baton {
namespace {

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    const std::string path = std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-f32.gguf";
    return OrAbort(Tokenizer::Load(OrAbort(GgufFile::Open(path, GgufFile::Part::kTokenizer))))
        .release();
  }();
  return *tokenizer;
}

const GrammarVocabulary& TinyVocabulary() {
  static const GrammarVocabulary* const vocabulary =
      OrAbort(GrammarVocabulary::Parse(SerializeVocabulary(TinyTokenizer()))).release();
  return *vocabulary;
}

GrammarState StateOf(const CompiledGrammar& grammar) {
  GrammarState state = OrAbort(GrammarState::Create(grammar));
  state.EncodeBy(TinyTokenizer());
  return state;
}

}  // namespace

GrammarState TinyGrammar(const GrammarSpec& spec) { return OrAbort(TryTinyGrammar(spec)); }

absl::StatusOr<GrammarState> TryTinyGrammar(const GrammarSpec& spec) {
  BATON_ASSIGN_OR_RETURN(const std::string bytes, CompileGrammar(spec, TinyVocabulary()));
  return StateOf(*OrAbort(CompiledGrammar::Parse(bytes, TinyVocabulary())));
}

GrammarState TinyRegexAsItIs(const std::string& expression) {
  xgrammar::GrammarCompiler compiler(TinyVocabulary().info(), /*max_threads=*/1,
                                     /*cache_enabled=*/false);
  return StateOf(CompiledGrammar(compiler.CompileRegex(expression), TinyVocabulary()));
}

GrammarState TinyRegex(const std::string& expression) {
  return TinyGrammar(SpecOf(GrammarKind::kRegex, expression));
}

std::string TinyText(absl::Span<const int32_t> tokens) {
  return TinyTokenizer().Decode(tokens, /*skip_special_tokens=*/true);
}

const std::vector<int32_t>& TinyEnds() { return TinyTokenizer().end_of_generation_ids(); }

std::vector<int32_t> TinyTokens(const std::string& text) {
  return OrAbort(
      TinyTokenizer().Encode(text, {.add_special_tokens = false, .parse_special = false}));
}

}  // namespace baton
