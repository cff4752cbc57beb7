// Reads the grammars that requests bring to a worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/grammar/grammar_state.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {

// Immutable and thread-safe.
class GrammarReader {
 public:
  // Takes a fraction of a second for a large vocabulary.
  static absl::StatusOr<std::unique_ptr<GrammarReader>> Create(const Tokenizer& tokenizer);

  // The state of a compiled grammar behind `outputs`, the tokens that an answer has so far. Errors
  // name the field "sequence.grammar": DATA_LOSS if its bytes are damaged, FAILED_PRECONDITION if
  // it is for another vocabulary, RESOURCE_EXHAUSTED if it is too large; or "sequence.token_ids":
  // INVALID_ARGUMENT if the outputs are none of the grammar, or have ended by it.
  absl::StatusOr<GrammarState> Read(absl::string_view grammar,
                                    absl::Span<const int32_t> outputs) const;

 private:
  explicit GrammarReader(std::unique_ptr<GrammarVocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)) {}

  std::unique_ptr<GrammarVocabulary> vocabulary_;
};

}  // namespace baton
