// Reads the tokenizer of Hugging Face's tokenizer.json, which lies under one key of the metadata.
#pragma once

#include "absl/status/statusor.h"

#include "common/gguf/gguf_file.h"
#include "common/tokenizer/tokenizer_parts.h"

namespace baton {

inline constexpr absl::string_view kTokenizerJsonKey = "tokenizer.huggingface.json";

// Reads BPE over bytes or over characters with byte fallback. The keys "tokenizer.ggml.*" of BOS,
// EOS and the chat template count if the file has them; "<architecture>.vocab_size" says how
// many tokens there are where the JSON names fewer (the others stand for nothing). UNIMPLEMENTED
// names what is not supported (Unigram, WordPiece, ...), INVALID_ARGUMENT the field and entry that
// is wrong.
absl::StatusOr<TokenizerParts> ReadJsonTokenizer(const GgufFile& file);

}  // namespace baton
