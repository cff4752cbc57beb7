#include "common/grammar/compiled_grammar.h"

#include <exception>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/grammar/packed_text.h"
#include "common/grammar/string_list.h"
#include "xgrammar/compiler.h"

namespace baton {
namespace {

constexpr absl::string_view kFormat = "baton grammar 2";
constexpr size_t kParts = 4;  // the format, the vocabulary's digest, the checksum, the packed JSON

std::string Checksum(absl::string_view packed) {
  const Hash128 hash = ChainHash({}, packed);
  return absl::StrCat(absl::Hex(hash.high, absl::kZeroPad16),
                      absl::Hex(hash.low, absl::kZeroPad16));
}

absl::Status TooLarge(size_t bytes, size_t most) {
  return absl::ResourceExhaustedError(
      absl::StrCat("a compiled grammar has ", bytes, " bytes, more than ", most, "; ask for less"));
}

}  // namespace

CompiledGrammar::CompiledGrammar(const xgrammar::CompiledGrammar& grammar,
                                 const GrammarVocabulary& vocabulary)
    : grammar_(std::make_unique<xgrammar::CompiledGrammar>(grammar)), utf8_(vocabulary.utf8()) {}
CompiledGrammar::CompiledGrammar(const CompiledGrammar& other)
    : grammar_(std::make_unique<xgrammar::CompiledGrammar>(other.grammar())), utf8_(other.utf8_) {}
CompiledGrammar::~CompiledGrammar() = default;

size_t CompiledGrammar::memory_bytes() const { return grammar_->MemorySizeBytes(); }

absl::StatusOr<std::string> CompiledGrammar::Serialize(const GrammarVocabulary& vocabulary) const {
  try {
    const std::string json = grammar_->SerializeJSON();
    if (json.size() > kMaxCompiledGrammarBytes) {
      return TooLarge(json.size(), kMaxCompiledGrammarBytes);
    }
    const std::string packed = PackText(json);
    if (packed.size() > kMaxPackedGrammarBytes) {
      return TooLarge(packed.size(), kMaxPackedGrammarBytes);
    }
    std::string bytes;
    AppendString(kFormat, bytes);
    AppendString(vocabulary.digest(), bytes);
    AppendString(Checksum(packed), bytes);
    AppendString(packed, bytes);
    return bytes;
  } catch (const std::bad_alloc&) {
    throw;
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
    return absl::FailedPreconditionError(
        "a grammar was compiled for another tokenizer; start router and workers with the same "
        "model file");
  }
  // tests/planted_bugs: grammar_checksum_ignored
  if (parts[2] != Checksum(parts[3])) {
    return absl::DataLossError("a compiled grammar does not have its checksum");
  }
  BATON_ASSIGN_OR_RETURN(const std::string json, UnpackText(parts[3], kMaxCompiledGrammarBytes));
  try {
    auto parsed = xgrammar::CompiledGrammar::DeserializeJSON(json, vocabulary.info());
    if (const auto* grammar = std::get_if<xgrammar::CompiledGrammar>(&parsed)) {
      return std::make_unique<CompiledGrammar>(*grammar, vocabulary);
    }
    return absl::DataLossError("a compiled grammar is not one of XGrammar's");
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a compiled grammar");
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("a compiled grammar: ", error.what()));
  }
}

}  // namespace baton
