// A vocabulary of all bytes but FF, whose ids they are, and of some tokens that begin or end within
// a character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/grammar/compiled_grammar.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/grammar/string_list.h"
#include "tests/common/grammar/or_abort.h"
#include "xgrammar/compiler.h"
#include "xgrammar/grammar.h"

namespace baton {

inline constexpr int32_t kByteEnd = 256;  // ends a generation

inline const std::vector<std::string>& ByteTexts() {
  static const auto* const texts = [] {
    auto* made = new std::vector<std::string>();
    for (int byte = 0; byte < 256; ++byte) made->emplace_back(1, static_cast<char>(byte));
    made->back() = "";  // as SerializeVocabulary has it
    for (const char* text :
         {"\xff<end>",    "a\xed",     "\xed\xed", "a\xed\xa0",    "\xed\xa0\x80",
          "\xed\x9f",     "\xa0y",     "\x9f\xbf", "\xbf\xbfz",    "\x9f\xbf\xed",
          "\xbf\xed",     "x\xe0\x80", "\xe0\xa4", "\xf0\x9f\x98", "\xf0\x8f",
          "\x8f\xbf\xbf", "\xf4\x90",  "\xc3\xbc", "ab",           "\xed\x95\x9c\xea"}) {
      made->emplace_back(text);
    }
    return made;
  }();
  return *texts;
}

inline const GrammarVocabulary& ByteVocabulary() {
  static const GrammarVocabulary* const vocabulary = [] {
    std::string bytes;
    AppendString("digest", bytes);
    AppendString(std::to_string(kByteEnd), bytes);
    for (const std::string& text : ByteTexts()) AppendString(text, bytes);
    return OrAbort(GrammarVocabulary::Parse(bytes)).release();
  }();
  return *vocabulary;
}

// The compiled form of a grammar as XGrammar has it, whatever CheckDeadEnds says of that.
inline CompiledGrammar CompiledAsItIs(const xgrammar::Grammar& grammar) {
  xgrammar::GrammarCompiler compiler(ByteVocabulary().info(), /*max_threads=*/1,
                                     /*cache_enabled=*/false);
  return CompiledGrammar(compiler.CompileGrammar(grammar), ByteVocabulary());
}

}  // namespace baton
