// Tokenizer of a GGUF file: byte-level BPE ("gpt2") with the pre-tokenizers of the models Baton
// runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/gguf/gguf_file.h"
#include "common/tokenizer/text_piece.h"

namespace baton {

struct EncodeOptions {
  bool add_special_tokens = true;  // BOS before and EOS after, where the file's flags say so
  bool parse_special = false;      // special-token literals in the text become control tokens
  bool lossy = false;              // a byte that no token can stand for is left out
};

// Immutable after Load and thread-safe; holds no reference to the file.
class Tokenizer {
 public:
  // Refuses by name what it does not know: another tokenizer model, another pre-tokenizer,
  // inconsistent arrays.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);
  ~Tokenizer();

  // Linear or n log n in the text, whatever it is. Bytes that are not UTF-8 are encoded as they
  // are. A byte for which the vocabulary has no token (SmolLM2's lacks 21 values: some ASCII
  // controls, what UTF-8 never uses, and the first byte of most unassigned planes) becomes its
  // unknown token, the first of that kind; where it has none, INVALID_ARGUMENT names byte and
  // offset. (What "tokenizer.ggml.unknown_token_id" names is often a control token, which no text
  // may become.) Literals of user-defined tokens are always recognised. REQUIRES: text under 1 GiB.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              const EncodeOptions& options) const;
  // The pieces' texts as one text, in which the offset counts; literals of special tokens are
  // recognised in trusted pieces only.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::Span<const TextPiece> pieces,
                                              bool add_special_tokens) const;

  int vocab_size() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  // Control or unknown token (its literal is never part of generated text when special tokens are
  // skipped). REQUIRES, here and below: 0 <= id < vocab_size().
  bool IsSpecial(int32_t id) const;
  // The tokens that end a generation unless ignore_eos is set: EOS, and the end-of-turn tokens of the
  // chat formats. Ascending.
  const std::vector<int32_t>& end_of_generation_ids() const;

  // The bytes that a token stands for (its literal, for a special token). Lives as long as the
  // tokenizer.
  absl::string_view TokenBytes(int32_t id) const;
  // Bytes of all ids, invalid UTF-8 replaced by U+FFFD.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const;

  // The model's own template; empty when the file has none.
  const std::string& chat_template() const;
  // SHA-256 (32 bytes) that a router and its workers compare.
  const std::string& digest() const;

 private:
  struct Rep;
  explicit Tokenizer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
