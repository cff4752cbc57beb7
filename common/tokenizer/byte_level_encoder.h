// The encoder of byte-level BPE ("gpt2"): text is split into pieces, and the bytes of each merge.
#pragma once

#include <vector>

#include "absl/status/statusor.h"

#include "common/tokenizer/bpe_encoder.h"
#include "common/tokenizer/split/pre_tokenizer.h"
#include "common/tokenizer/text_encoder.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {

class ByteLevelEncoder final : public TextEncoder {
 public:
  struct Options {
    bool normal_form_c = false;
    bool takes_known_pieces_whole = false;  // a piece that is itself a token does not merge
  };
  // `vocabulary` outlives the encoder. An error if it has no token of a single byte.
  static absl::StatusOr<ByteLevelEncoder> Create(PreTokenizer pre_tokenizer,
                                                 const Vocabulary& vocabulary,
                                                 std::vector<BpeEncoder::Merge> merges,
                                                 const Options& options);

  void Encode(const PlainText& plain, EncodedText& encoded) const override;

 private:
  ByteLevelEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary, BpeEncoder encoder,
                   const Options& options);

  PreTokenizer pre_tokenizer_;
  const Vocabulary& vocabulary_;
  BpeEncoder encoder_;
  Options options_;
};

}  // namespace baton
