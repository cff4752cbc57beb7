// Grammars for the vocabulary of the tiny models of tests/data/tiny: most of its tokens are one
// byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/grammar/grammar_state.h"
#include "tests/common/grammar/specs.h"

namespace baton {

// The state before the first token. The spec compiles.
GrammarState TinyGrammar(const GrammarSpec& spec);
// As CompileGrammar tells it.
absl::StatusOr<GrammarState> TryTinyGrammar(const GrammarSpec& spec);
GrammarState TinyRegex(const std::string& expression);
// Also of an expression that leads to a dead end, which is no spec that compiles.
GrammarState TinyRegexAsItIs(const std::string& expression);

// The text of tokens, without special ones, and back.
std::string TinyText(absl::Span<const int32_t> tokens);
std::vector<int32_t> TinyTokens(const std::string& text);

// The tokens that end a generation, ascending.
const std::vector<int32_t>& TinyEnds();

}  // namespace baton
