// The pre-tokenizer, which splits text into the pieces inside which BPE merges. It uses the regular
// expressions that models were trained with.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct PreTokenizerOptions {
  bool use_jit = true;  // compile the expression to machine code if possible; pieces are the same
  uint32_t match_limit = std::numeric_limits<uint32_t>::max();  // backtracking steps for one piece
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  // Makes the pre-tokenizer `name`, a value of "tokenizer.ggml.pre": gpt-2, starcoder, smollm,
  // llama-bpe or qwen2. Another name is an error that names it.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name,
                                             const PreTokenizerOptions& options = {});
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `piece` for each piece in order; the concatenated pieces are always `text`. Takes linear
  // time. Consecutive bytes that are not UTF-8 are one piece, and the text before them is split as
  // if it ended there. If the expression fails, which only a small match limit causes, one
  // character becomes a piece. REQUIRES: `text` is shorter than 1 GiB.
  void Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> piece) const;

  // Whether a piece that is itself a token is encoded as that token, without merging.
  bool takes_known_pieces_whole() const;
  // Whether BOS is added before a text if the model file does not say.
  bool adds_bos_by_default() const;

 private:
  struct Rep;
  explicit PreTokenizer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
