// The tokenizer of a GGUF file: byte-level BPE ("gpt2") with the pre-tokenizers of the models that
// Baton runs, or SentencePiece's BPE ("llama"); or of a tokenizer.json, if the metadata has one
// under "tokenizer.huggingface.json": BPE over bytes or characters.
#pragma once

#include <cstddef>
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
  bool add_special_tokens = true;  // add BOS before and EOS after the text, if the file says so
  bool parse_special = false;      // literals of special tokens become control tokens
  bool lossy = false;              // leave out bytes that no token can stand for
  bool continues = false;          // the text goes on from another: no space is put in front of it
};

// Immutable after Load and thread-safe; holds no reference to the file.
class Tokenizer {
 public:
  // Loads the tokenizer of `file`. It has one token for each row of the model's embedding where
  // the file shows how many these are (vocabulary_size.h); a warning in the log counts tokens that
  // are left out. An error names what is not supported: another tokenizer model, another
  // pre-tokenizer, inconsistent arrays, tokens of plain text without a row.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const GgufFile& file);
  ~Tokenizer();

  // Encodes any text in at most O(n log n). Bytes that are not UTF-8 are encoded as they are. A
  // byte for which the vocabulary has no token (SmolLM2's lacks 21 values: some ASCII controls,
  // those that UTF-8 never uses, and the first byte of most unassigned planes) becomes the first
  // token of the kind unknown; if there is none, INVALID_ARGUMENT names the byte and its offset.
  // (The token of "tokenizer.ggml.unknown_token_id" is often a control token, which no text may
  // become.) Literals of user-defined tokens are always recognised. REQUIRES: `text` is shorter
  // than 1 GiB.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text,
                                              const EncodeOptions& options) const;
  // Encodes the concatenated texts of the pieces; an error's offset counts in that text.
  // Literals of special tokens are recognised in trusted text only.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::Span<const TextPiece> pieces,
                                              bool add_special_tokens) const;

  int vocab_size() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  // Whether `id` is a control or unknown token, whose literal is left out of generated text when
  // special tokens are skipped. REQUIRES, here and below: 0 <= id < vocab_size().
  bool IsSpecial(int32_t id) const;
  // The tokens that end a generation unless ignore_eos is set: those that the file names by their
  // ids, and those of known formats (end_of_generation.h). Ascending.
  const std::vector<int32_t>& end_of_generation_ids() const;

  // The most bytes of a text that one token may come from: of a text of n bytes at least n / this
  // many tokens are made. Nothing if no such bound is known: the tokenizer leaves out parts of a
  // text, or joins any number of unknown characters, or a token takes the spaces beside it.
  std::optional<size_t> max_bytes_of_token() const;

  // The bytes that a token stands for; for a special token its literal. They live as long as the
  // tokenizer. The text that continues a prompt is these bytes, one token's after the other's.
  absl::string_view TokenBytes(int32_t id) const;
  // The whole text that `ids` stand for, with invalid UTF-8 replaced by U+FFFD. The space that a
  // SentencePiece model puts in front of a text is not part of it: one is dropped from the first
  // token that is not special.
  std::string Decode(absl::Span<const int32_t> ids, bool skip_special_tokens) const;

  // The model's own chat template; empty if the file has none.
  const std::string& chat_template() const;
  // That for chats with tools; empty if the file has no other for them.
  const std::string& tool_chat_template() const;
  // A SHA-256 (32 bytes) of the tokenizer, which a router and its workers compare.
  const std::string& digest() const;

 private:
  struct Rep;
  explicit Tokenizer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
