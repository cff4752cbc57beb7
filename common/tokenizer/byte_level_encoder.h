// The encoder of byte-level BPE ("gpt2"): text is split into pieces, and the bytes of each merge.
#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/tokenizer/bpe_encoder.h"
#include "common/tokenizer/pre_tokenizer.h"
#include "common/tokenizer/text_encoder.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {

class ByteLevelEncoder final : public TextEncoder {
 public:
  // `vocabulary` outlives the encoder. An error if it has no token of a single byte.
  static absl::StatusOr<ByteLevelEncoder> Create(PreTokenizer pre_tokenizer,
                                                 const Vocabulary& vocabulary,
                                                 std::vector<BpeEncoder::Merge> merges);

  void Encode(const PlainText& plain, EncodedText& encoded) const override;

 private:
  ByteLevelEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary, BpeEncoder encoder);

  PreTokenizer pre_tokenizer_;
  const Vocabulary& vocabulary_;
  BpeEncoder encoder_;
};

}  // namespace baton
