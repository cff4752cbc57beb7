#include "common/grammar/compiled_grammar.h"

#include <exception>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/grammar/string_list.h"
#include "xgrammar/compiler.h"

namespace baton {
namespace {

constexpr absl::string_view kFormat = "baton grammar 1";
constexpr size_t kParts = 4;  // the format, the vocabulary's digest, the checksum, the JSON

std::string Checksum(absl::string_view json) {
  const Hash128 hash = ChainHash({}, json);
  return absl::StrCat(absl::Hex(hash.high, absl::kZeroPad16),
                      absl::Hex(hash.low, absl::kZeroPad16));
}

absl::Status TooLarge(size_t bytes) {
  return absl::ResourceExhaustedError(absl::StrCat("a compiled grammar has ", bytes,
                                                   " bytes, more than ", kMaxCompiledGrammarBytes));
}

}  // namespace

CompiledGrammar::CompiledGrammar(const xgrammar::CompiledGrammar& grammar)
    : grammar_(std::make_unique<xgrammar::CompiledGrammar>(grammar)) {}
CompiledGrammar::~CompiledGrammar() = default;

absl::StatusOr<std::string> CompiledGrammar::Serialize(const GrammarVocabulary& vocabulary) const {
  try {
    const std::string json = grammar_->SerializeJSON();
    if (json.size() > kMaxCompiledGrammarBytes) return TooLarge(json.size());
    std::string bytes;
    AppendString(kFormat, bytes);
    AppendString(vocabulary.digest(), bytes);
    AppendString(Checksum(json), bytes);
    AppendString(json, bytes);
    return bytes;
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("a compiled grammar: ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<CompiledGrammar>> CompiledGrammar::Parse(
    absl::string_view bytes, const GrammarVocabulary& vocabulary) {
  BATON_ASSIGN_OR_RETURN(const std::vector<absl::string_view> parts, ReadStrings(bytes));
  if (parts.size() != kParts || parts[0] != kFormat) {
    return absl::DataLossError("a compiled grammar is not in the form of this version of Baton");
  }
  if (parts[1] != vocabulary.digest()) {
    return absl::FailedPreconditionError("a grammar was compiled for another tokenizer");
  }
  if (parts[3].size() > kMaxCompiledGrammarBytes) return TooLarge(parts[3].size());
  if (parts[2] != Checksum(parts[3])) {
    return absl::DataLossError("a compiled grammar does not have its checksum");
  }
  try {
    auto parsed =
        xgrammar::CompiledGrammar::DeserializeJSON(std::string(parts[3]), vocabulary.info());
    if (const auto* grammar = std::get_if<xgrammar::CompiledGrammar>(&parsed)) {
      return std::make_unique<CompiledGrammar>(*grammar);
    }
    return absl::DataLossError("a compiled grammar is not one of XGrammar's");
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("a compiled grammar: ", error.what()));
  }
}

}  // namespace baton
