// Specs of each kind.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/grammar/grammar_spec.h"

namespace baton {

inline GrammarSpec SpecOf(GrammarKind kind, std::string text) {
  GrammarSpec spec;
  spec.kind = kind;
  spec.text = std::move(text);
  return spec;
}

inline GrammarSpec ChoiceOf(std::vector<std::string> choices) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kChoice;
  spec.choices = std::move(choices);
  return spec;
}

inline GrammarSpec TagsOf(std::vector<GrammarTag> tags) {
  GrammarSpec spec;
  spec.kind = GrammarKind::kTags;
  spec.tags = std::move(tags);
  return spec;
}

// A grammar with which the states of a parser grow by more than a step with each byte of a text:
// each part of the text is read in every way that divides it.
inline GrammarSpec CostlyGrammar() {
  return SpecOf(GrammarKind::kGrammar, "root ::= s\ns ::= s s s | s s | [a-z ] | \"\"");
}

}  // namespace baton
