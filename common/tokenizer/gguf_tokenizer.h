// Reads the tokenizer of GGUF metadata (the keys "tokenizer.ggml.*" of ggml's docs/gguf.md).
#pragma once

#include "absl/status/statusor.h"

#include "common/gguf/gguf_file.h"
#include "common/tokenizer/tokenizer_parts.h"

namespace baton {

// Reads byte-level BPE ("gpt2") or SentencePiece's BPE ("llama"). UNIMPLEMENTED names another model
// or pre-tokenizer, INVALID_ARGUMENT the key and entry that is wrong.
absl::StatusOr<TokenizerParts> ReadGgufTokenizer(const GgufFile& file);

// Fills the rest of `parts` once they have a vocabulary: its literals, BOS, EOS, the tokens that
// end a generation, and the chat template. `parts.add_bos` is what holds if the file does not say.
// An error names the entry of the array `tokens`.
absl::Status ReadSpecialTokens(const GgufFile& file, absl::string_view tokens,
                               TokenizerParts& parts);

}  // namespace baton
