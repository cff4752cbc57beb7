#include "common/worker/grammar_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/grammar/compiled_grammar.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// An answer of thousands of tokens takes less; the engine replays what takes more on a thread of its
// own.
constexpr absl::Duration kReplayAtOnce = absl::Milliseconds(200);

// A SHA-256, so that two grammars with one key cannot be made.
std::string KeyOf(const GrammarReader::Packed& packed) {
  Sha256 hash;
  hash.UpdateInteger(packed.cache_salt.size());
  // tests/planted_bugs: read_grammars_shared_by_tenants
  hash.Update(packed.cache_salt);
  hash.Update(packed.grammar);
  return hash.Finish();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrammarReader>> GrammarReader::Create(
    const Tokenizer& tokenizer, const ReadGrammars::Limits& limits) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<GrammarVocabulary> vocabulary,
                         GrammarVocabulary::Parse(SerializeVocabulary(tokenizer)));
  return std::unique_ptr<GrammarReader>(
      new GrammarReader(tokenizer, std::move(vocabulary), limits));
}

absl::StatusOr<GrammarState> GrammarReader::Read(const Packed& packed,
                                                 absl::Span<const int32_t> outputs) const {
  const auto read = [&]() -> ReadGrammars::Result {
    BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CompiledGrammar> parsed,
                           CompiledGrammar::Parse(packed.grammar, *vocabulary_));
    return *parsed;
  };
  const ReadGrammars::Result grammar = grammars_.Get(KeyOf(packed), read);
  if (!grammar.ok()) {
    return absl::Status(grammar.status().code(),
                        absl::StrCat("sequence.grammar: ", grammar.status().message()));
  }
  BATON_ASSIGN_OR_RETURN(GrammarState state, GrammarState::Create(*grammar));
  state.EncodeBy(tokenizer_);
  state.SetBudget({.at_once = kReplayAtOnce});
  const absl::Status replayed = state.ReplayAtOnce(outputs);
  state.SetBudget({});
  if (state.stalled()) return state;
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
