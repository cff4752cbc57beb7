// Reads the tokenizer of GGUF metadata (the keys "tokenizer.ggml.*" of ggml's docs/gguf.md).
#pragma once

#include "absl/status/statusor.h"

#include "common/gguf/gguf_file.h"
#include "common/tokenizer/tokenizer_parts.h"

namespace baton {

// Reads byte-level BPE ("gpt2") or SentencePiece's BPE ("llama"). UNIMPLEMENTED names another model
// or pre-tokenizer, INVALID_ARGUMENT the key and entry that is wrong.
absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file);

}  // namespace baton
