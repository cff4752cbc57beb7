// A grammar that was compiled for a vocabulary, and its form on the wire.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/grammar/grammar_vocabulary.h"
#include "common/grammar/utf8_tokens.h"

namespace xgrammar {
class CompiledGrammar;
}

namespace baton {

// Bytes of a grammar's JSON. Most have some hundred KB: the masks of a vocabulary of 49,152 tokens.
// An object has about 80 KB for each property.
inline constexpr size_t kMaxCompiledGrammarBytes = size_t{12} << 20;
// Bytes of it on the wire, packed, in one message with other things.
inline constexpr size_t kMaxPackedGrammarBytes = size_t{4} << 20;

// Immutable and thread-safe; holds no reference to the vocabulary. A copy shares what it was made
// of, which goes with the last copy and the last GrammarState.
class CompiledGrammar {
 public:
  // REQUIRES: it was compiled for this vocabulary.
  CompiledGrammar(const xgrammar::CompiledGrammar& grammar, const GrammarVocabulary& vocabulary);
  CompiledGrammar(const CompiledGrammar& other);
  CompiledGrammar& operator=(const CompiledGrammar&) = delete;
  ~CompiledGrammar();

  // What Parse reads: XGrammar's JSON, packed, with a checksum, under the vocabulary's digest.
  // RESOURCE_EXHAUSTED if it were larger than allowed. Throws std::bad_alloc, and nothing else.
  absl::StatusOr<std::string> Serialize(const GrammarVocabulary& vocabulary) const;
  // DATA_LOSS if `bytes` are not what Serialize made; FAILED_PRECONDITION if it was for another
  // vocabulary; RESOURCE_EXHAUSTED if there is no memory for it. The checksum finds what was
  // damaged. A forged grammar passes it: XGrammar checks the numbers in it against
  // each other, so that such a grammar allows what its maker likes, at the cost of its size, and no
  // more is known to be possible.
  static absl::StatusOr<std::unique_ptr<CompiledGrammar>> Parse(
      absl::string_view bytes, const GrammarVocabulary& vocabulary);

  size_t memory_bytes() const;  // about what it takes, however many copies there are

  // For this folder's sources.
  const xgrammar::CompiledGrammar& grammar() const { return *grammar_; }
  const std::shared_ptr<const Utf8Tokens>& utf8() const { return utf8_; }

 private:
  std::unique_ptr<xgrammar::CompiledGrammar> grammar_;
  std::shared_ptr<const Utf8Tokens> utf8_;
};

}  // namespace baton
