// Finds where a form would lead an answer to a dead end: a text behind which nothing may come, not
// even the end. All functions are pure, and take memory and time in proportion to the grammar's
// size, if its rules do not refer to each other in an order that was made to be slow.
//
// An expression of the grammar can be the empty text, or begin with a character, or neither. Where
// something begins, all that may have to follow must be one of the first two; a grammar of which
// this holds always has a way on or an end. The check is at most too strict: in "ab" | "a" x, where
// x matches nothing, the "b" would be a way on.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "common/grammar/grammar_vocabulary.h"

namespace xgrammar {
class Grammar;
}

namespace baton {

// INVALID_ARGUMENT says what of the grammar matches no text: a string or a class of characters with
// nothing but halves of UTF-16 pairs, wherever it stands, since it cannot be what was meant; or
// anything else, where an answer could come to it. `vocabulary` has the tokens that the grammar
// names.
absl::Status CheckDeadEnds(const xgrammar::Grammar& grammar, const GrammarVocabulary& vocabulary);

// The same of a regular expression for the text between the quotes of a JSON string, in which
// nothing stands that JSON escapes. OK even if XGrammar's reader of expressions does not know
// something that its automata do.
absl::Status CheckDeadEndsOfJsonString(const std::string& expression);

}  // namespace baton
