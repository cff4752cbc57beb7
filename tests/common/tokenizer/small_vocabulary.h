// A vocabulary of ten tokens, as a file that is made in memory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "common/tokenizer/tokenizer.h"
#include "tests/support/gguf_builder.h"

namespace baton {

inline absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufBuilder& builder) {
  const auto file = GgufFile::Parse(builder.Build(), "made.gguf", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  return Tokenizer::Load(*file);
}

inline GgufBuilder Scheme(const std::string& pre) {
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", pre);
  return builder;
}

// The tokens a=0 b=1 Ġ=2 ab=3 <s>=4 </s>=5 <u>=6 <unk>=7 <|im_end|>=8 abb=9; no merge makes abb.
inline GgufBuilder Small(const std::string& pre) {
  return Scheme(pre)
      .Texts("tokenizer.ggml.tokens",
             {"a", "b", "Ġ", "ab", "<s>", "</s>", "<u>", "<unk>", "<|im_end|>", "abb"})
      .Int32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 3, 3, 4, 2, 3, 1})
      .Texts("tokenizer.ggml.merges", {"a b"});
}

}  // namespace baton
