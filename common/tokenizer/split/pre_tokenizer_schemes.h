// The pre-tokenizers that GGUF files name.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct PreTokenizerScheme {
  // Expressions in Oniguruma's syntax; each splits the pieces of the previous one. Null: no more.
  std::array<const char*, 4> expressions;
  bool takes_known_pieces_whole;
  bool adds_bos_by_default;
};

// The scheme of `name`, a value of "tokenizer.ggml.pre". UNIMPLEMENTED names one that is not known,
// and those that are. The expressions are those of the models' own tokenizer.json, which llama.cpp's
// src/llama-vocab.cpp gathers; where it only approximates one (tekken, gpt-4o), the model's counts.
absl::StatusOr<PreTokenizerScheme> FindPreTokenizerScheme(absl::string_view name);

}  // namespace baton
