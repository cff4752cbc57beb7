// Reads the grammars that requests bring to a worker.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/grammar/grammar_state.h"
#include "common/grammar/grammar_vocabulary.h"
#include "common/tokenizer/tokenizer.h"
#include "common/worker/read_grammars.h"

namespace baton {

// Thread-safe. It keeps grammars that it has read, since reading one takes some milliseconds of a
// thread that belongs to gRPC. A grammar is found again by its bytes, which name their vocabulary,
// and by the salt of its request's cached prefixes. So no tenant can infer from the time what
// another tenant asked for.
class GrammarReader {
 public:
  // What a request brings.
  struct Packed {
    absl::string_view grammar;     // what CompiledGrammar::Parse reads
    absl::string_view cache_salt;  // a request finds grammars of its own salt alone
  };

  // Takes a fraction of a second for a large vocabulary. Borrows the tokenizer, for the states too.
  static absl::StatusOr<std::unique_ptr<GrammarReader>> Create(const Tokenizer& tokenizer,
                                                               const ReadGrammars::Limits& limits);

  // The state of the grammar behind `outputs`, the tokens that an answer has so far. Errors name
  // the field "sequence.grammar": DATA_LOSS if its bytes are damaged, FAILED_PRECONDITION if it is
  // for another vocabulary, RESOURCE_EXHAUSTED if it is too large; or "sequence.token_ids":
  // INVALID_ARGUMENT if the outputs are none of the grammar, or have ended by it. If the
  // check takes long, the state has stalled.
  absl::StatusOr<GrammarState> Read(const Packed& packed, absl::Span<const int32_t> outputs) const;

  ReadGrammars::Stats stats() const { return grammars_.stats(); }

 private:
  GrammarReader(const Tokenizer& tokenizer, std::unique_ptr<GrammarVocabulary> vocabulary,
                const ReadGrammars::Limits& limits)
      : tokenizer_(tokenizer), vocabulary_(std::move(vocabulary)), grammars_(limits) {}

  const Tokenizer& tokenizer_;
  const std::unique_ptr<GrammarVocabulary> vocabulary_;
  mutable ReadGrammars grammars_;
};

}  // namespace baton
