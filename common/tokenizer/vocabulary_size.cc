#include "common/tokenizer/vocabulary_size.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/tokenizer/vocabulary.h"

namespace baton {
namespace {

// Whether text becomes a token of this kind only if it spells the token's literal.
bool HasLiteralOnly(int64_t kind) {
  return kind == static_cast<int64_t>(TokenKind::kControl) ||
         kind == static_cast<int64_t>(TokenKind::kUserDefined) ||
         kind == static_cast<int64_t>(TokenKind::kUnused);
}

}  // namespace

absl::StatusOr<size_t> VocabularySize(const GgufFile& file, absl::Span<const int64_t> kinds,
                                      absl::string_view tokens) {
  const std::optional<uint64_t> rows = file.VocabularyRows();
  if (!rows.has_value()) return kinds.size();
  if (*rows > Vocabulary::kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(tokens, " has ", kinds.size(), " tokens, and the model's embedding has ",
                     *rows, " rows; at most ", Vocabulary::kMaxTokens, " rows are supported"));
  }
  for (size_t id = static_cast<size_t>(*rows); id < kinds.size(); ++id) {
    if (HasLiteralOnly(kinds[id])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        tokens, " has ", kinds.size(), " tokens, but the model's embedding has ", *rows,
        " rows, and ordinary text can produce token ", id,
        ", which has no row; use the tokenizer that the model was trained with, or resize the "
        "embedding to it (resize_token_embeddings of transformers) and convert the model again"));
  }
  return static_cast<size_t>(*rows);
}

}  // namespace baton
