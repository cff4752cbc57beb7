// How many tokens a model's vocabulary has: one for each row of its embedding, whatever the file's
// tokenizer lists.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/gguf/gguf_file.h"

namespace baton {

// Returns the number of rows of the model's embedding, or the number of listed tokens if `file`
// does not show the rows. `kinds` has the kind of each listed token (TokenKind).
//
// If there are fewer listed tokens than rows, the caller adds tokens of the kind unused. If there
// are more, the caller leaves out the tokens from the returned number on: the model can neither
// read nor produce them. Only their literals spell them, and become plain text. So router, grammars
// and engine have one vocabulary.
//
// INVALID_ARGUMENT, with a message that begins with `tokens`, the name of the list, if plain text
// may become a token that would be left out, or if there are more rows than Vocabulary::kMaxTokens.
absl::StatusOr<size_t> VocabularySize(const GgufFile& file, absl::Span<const int64_t> kinds,
                                      absl::string_view tokens);

}  // namespace baton
