#include "common/worker/grammar_reader.h"

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/grammar/compiled_grammar.h"
#include "common/rpc/status.h"

namespace baton {

absl::StatusOr<std::unique_ptr<GrammarReader>> GrammarReader::Create(const Tokenizer& tokenizer) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<GrammarVocabulary> vocabulary,
                         GrammarVocabulary::Parse(SerializeVocabulary(tokenizer)));
  return std::unique_ptr<GrammarReader>(new GrammarReader(std::move(vocabulary)));
}

absl::StatusOr<GrammarState> GrammarReader::Read(absl::string_view grammar,
                                                 absl::Span<const int32_t> outputs) const {
  const auto parsed = CompiledGrammar::Parse(grammar, *vocabulary_);
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        absl::StrCat("sequence.grammar: ", parsed.status().message()));
  }
  BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(**parsed));
  const absl::Status replayed = state.Replay(outputs);
  if (absl::IsInvalidArgument(replayed)) {
    return InvalidField("sequence.token_ids",
                        absl::StrCat("do not fit sequence.grammar: ", replayed.message()));
  }
  BATON_RETURN_IF_ERROR(replayed);
  if (state.IsTerminated()) {
    return InvalidField("sequence.token_ids", "have ended by sequence.grammar");
  }
  return state;
}

}  // namespace baton
