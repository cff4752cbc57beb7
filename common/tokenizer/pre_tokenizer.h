// Cuts text into the pieces inside which byte pairs merge: the regular expressions that models were
// trained with.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct PreTokenizerOptions {
  bool use_jit = true;  // where the machine allows it; the pieces are the same
  uint32_t match_limit = std::numeric_limits<uint32_t>::max();  // backtracking steps for one piece
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  // `name` is a value of "tokenizer.ggml.pre": gpt-2, starcoder, smollm, llama-bpe or qwen2.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name,
                                             const PreTokenizerOptions& options = {});
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `piece` for each piece in turn; together they are the text, whatever it is, in linear
  // time. A run of bytes that are not UTF-8 is one piece, and the text beside it is cut as if it
  // ended there. Where the regular expression fails (it does not, within a match limit that large),
  // one character is a piece. REQUIRES: text under 1 GiB.
  void Split(absl::string_view text, absl::FunctionRef<void(absl::string_view)> piece) const;

  // A piece that is a token is taken whole, without merging.
  bool takes_known_pieces_whole() const;
  // BOS goes before a text unless the file says otherwise.
  bool adds_bos_by_default() const;

 private:
  struct Rep;
  explicit PreTokenizer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
