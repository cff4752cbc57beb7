// The pre-tokenizer, which splits text into the pieces inside which BPE merges. It uses the regular
// expressions that models were trained with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// One step of a pre-tokenizer, which splits each piece of the step before it.
struct SplitRule {
  // What becomes of a match, by the names of Hugging Face's tokenizers.
  enum class Behavior {
    kIsolated,            // it is a piece, as the text between two matches is
    kRemoved,             // it is left out
    kMergedWithPrevious,  // it ends the piece before it
    kMergedWithNext,      // it begins the piece after it
    kContiguous,          // matches in a row are one piece
  };
  std::string expression;  // in Oniguruma's syntax (regex_dialect.h)
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;  // the text between matches takes their place
};

struct PreTokenizerOptions {
  bool use_jit = true;  // compile expressions to machine code if possible; pieces are the same
};

// Immutable and thread-safe.
class PreTokenizer {
 public:
  // Makes the pre-tokenizer `name`, a value of "tokenizer.ggml.pre". UNIMPLEMENTED names one that
  // is not known, and those that are.
  static absl::StatusOr<PreTokenizer> Create(absl::string_view name,
                                             const PreTokenizerOptions& options = {});
  // Makes one of rules, at most kMaxRules. INVALID_ARGUMENT or UNIMPLEMENTED quotes the expression
  // that is wrong.
  static constexpr size_t kMaxRules = 16;
  static absl::StatusOr<PreTokenizer> Create(const std::vector<SplitRule>& rules,
                                             const PreTokenizerOptions& options = {});
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls `piece` for each piece, a part of `text` that is not empty, in order; unless a rule
  // removes something, the concatenated pieces are `text`. Takes linear time. Consecutive bytes
  // that are not UTF-8 are one piece, and the text before them is split as if it ended there.
  // RESOURCE_EXHAUSTED if an expression, none of a known name, would take more than linear time.
  absl::Status Split(absl::string_view text,
                     absl::FunctionRef<void(absl::string_view)> piece) const;

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
