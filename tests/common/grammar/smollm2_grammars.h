// Grammars for SmolLM2's real vocabulary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/grammar/compiled_grammar.h"
#include "common/grammar/grammar_state.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/common/grammar/specs.h"

namespace baton {

const Tokenizer& SmolLm2Tokenizer();
const GrammarVocabulary& SmolLm2Vocabulary();

// Compiles in this process.
absl::StatusOr<std::unique_ptr<CompiledGrammar>> CompiledFor(const GrammarSpec& spec);
absl::StatusOr<std::unique_ptr<CompiledGrammar>> CompiledSchema(const std::string& schema);
// The error's message; "" if it compiles.
std::string CompileError(const GrammarSpec& spec);

// The tokens of a text, without special ones.
std::vector<int32_t> TokensOf(const std::string& text);
// The state after a text, with the tokenizer; an error if the grammar does not allow it.
absl::StatusOr<GrammarState> StateAfter(const CompiledGrammar& grammar, const std::string& text);
// Whether the whole text is valid by the grammar.
bool Allows(const CompiledGrammar& grammar, const std::string& text);

}  // namespace baton
