// The tokens of a model, as grammars see them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/grammar/utf8_tokens.h"
#include "common/tokenizer/literal_matcher.h"
#include "common/tokenizer/tokenizer.h"

namespace xgrammar {
class TokenizerInfo;
}

namespace baton {

// No UTF-8 text has this byte.
inline constexpr char kSpecialTokenByte = '\xff';

// What GrammarVocabulary::Parse reads: the bytes of every token, and the tokens that end a
// generation. Those of a special token are a byte that stands in no text and its literal: no text
// can ask for it, only a grammar that names the token. About as large as the vocabulary's texts.
std::string SerializeVocabulary(const Tokenizer& tokenizer);

// Made once for a model, in a fraction of a second. Immutable and thread-safe.
class GrammarVocabulary {
 public:
  // DATA_LOSS or INVALID_ARGUMENT if SerializeVocabulary did not make `bytes`.
  static absl::StatusOr<std::unique_ptr<GrammarVocabulary>> Parse(absl::string_view bytes);
  ~GrammarVocabulary();

  int32_t size() const { return size_; }  // tokens
  // Tokenizer::digest() of the model.
  const std::string& digest() const { return digest_; }
  // The special tokens by their literals, the longest literal first; without those that end a
  // generation.
  const std::vector<std::pair<std::string, int32_t>>& special_tokens() const { return special_; }
  // Finds these literals in text.
  const LiteralMatcher& special_literals() const { return special_literals_; }
  // What UTF-8 forbids of it. Never null; grammars and their states share it.
  const std::shared_ptr<const Utf8Tokens>& utf8() const { return utf8_; }
  // XGrammar's form of it, for this folder's sources.
  const xgrammar::TokenizerInfo& info() const { return *info_; }

 private:
  GrammarVocabulary(std::string digest, std::unique_ptr<xgrammar::TokenizerInfo> info);
  void ListSpecialTokens();

  std::string digest_;
  std::unique_ptr<xgrammar::TokenizerInfo> info_;
  std::vector<std::pair<std::string, int32_t>> special_;
  LiteralMatcher special_literals_;
  std::shared_ptr<const Utf8Tokens> utf8_;
  int32_t size_;
};

}  // namespace baton
