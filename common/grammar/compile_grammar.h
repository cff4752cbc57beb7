// Compiles a grammar in this process. It takes as long, and as much memory and stack, as the
// client's schema makes it; so only the compiler's own process does it (grammar_compiler.h).
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "common/grammar/grammar_spec.h"
#include "common/grammar/grammar_vocabulary.h"

namespace baton {

// The serialised CompiledGrammar. INVALID_ARGUMENT names the field of `spec` and what is wrong:
// what is malformed, what no answer could be held to, that nothing is allowed at all, or that the
// grammar is too large. Throws std::bad_alloc, and nothing else. Equal specs compile to equal
// bytes. REQUIRES: no other thread writes to std::cerr, whose text this function takes: XGrammar
// reports there what it ignores.
absl::StatusOr<std::string> CompileGrammar(const GrammarSpec& spec,
                                           const GrammarVocabulary& vocabulary);

}  // namespace baton
