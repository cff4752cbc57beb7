// The encoder of SentencePiece's BPE, as GGUF files of the tokenizer model "llama" hold it.
//
// Each space is U+2581 to the model, and one is put in front of a text if the file says so;
// nothing else is normalised. Single characters merge: of all neighbours whose joined text is a
// piece, those with the highest score, the leftmost at a tie, until none are left. A character
// outside the vocabulary becomes the byte pieces of its UTF-8. (sentencepiece's bpe_model.cc
// defines it.)
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/tokenizer/text_encoder.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {

class SpmEncoder final : public TextEncoder {
 public:
  static constexpr size_t kMaxPieceBytes = 1024;  // bounds the work at each pair of neighbours

  // `vocabulary` is of Spelling::kSentencePiece and outlives the encoder. `scores` has a number for
  // each token. INVALID_ARGUMENT names the array and the token. Bytes without a byte piece become
  // the token of the kind unknown; if there is none, they are left out.
  static absl::StatusOr<std::unique_ptr<SpmEncoder>> Create(const Vocabulary& vocabulary,
                                                            absl::Span<const float> scores,
                                                            bool add_space_prefix);

  void Encode(const PlainText& plain, EncodedText& encoded) const override;

 private:
  // Characters that have merged, an element of a doubly linked list.
  struct Symbol {
    uint32_t begin;     // offset in the text
    uint32_t size;      // bytes; 0: merged into its left neighbour
    uint32_t next;      // index of the right neighbour
    uint32_t previous;  // index of the left neighbour
  };
  struct Work {
    std::string text;                  // with plain spaces for U+2581
    std::vector<Symbol> symbols;       // in the order of the text
    std::vector<uint64_t> candidates;  // heap of rank << 44 | left symbol << 12 | joined bytes
  };
  SpmEncoder(const Vocabulary& vocabulary, bool add_space_prefix)
      : vocabulary_(vocabulary), add_space_prefix_(add_space_prefix) {}
  void AddCandidate(uint32_t left, Work& work) const;
  void MergeAll(Work& work) const;
  void AppendIds(const Work& work, const Symbol& symbol, const PlainText& plain, bool prefixed,
                 EncodedText& encoded) const;

  const Vocabulary& vocabulary_;
  bool add_space_prefix_;
  std::vector<uint32_t> rank_of_id_;  // [vocab_size] 0: the highest score
  size_t longest_piece_bytes_ = 0;
};

}  // namespace baton
