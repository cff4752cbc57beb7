// The encoder of BPE over characters, as tokenizer.json has it for SentencePiece's vocabularies:
// merges have ranks in place of scores.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/tokenizer/bpe_encoder.h"
#include "common/tokenizer/split/pre_tokenizer.h"
#include "common/tokenizer/text_encoder.h"
#include "common/tokenizer/vocabulary.h"

namespace baton {

class CharacterEncoder final : public TextEncoder {
 public:
  enum class Prefix {
    kNone,
    kAlways,   // U+2581 in front of each part of a text
    kMissing,  // the same, unless the part begins with one
    kFirst,    // as kMissing, but in front of the whole text only
  };
  struct Options {
    bool normal_form_c = false;
    bool replace_spaces = false;  // by U+2581
    Prefix prefix = Prefix::kNone;
    bool byte_fallback = false;  // characters without a token become byte pieces
    bool fuse_unknown = false;   // unknown characters in a row are one unknown token
    bool takes_known_pieces_whole = false;
  };
  // `vocabulary` is of Spelling::kSentencePiece and outlives the encoder.
  CharacterEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary,
                   std::vector<BpeEncoder::Merge> merges, const Options& options);

  void Encode(const PlainText& plain, EncodedText& encoded) const override;

 private:
  // Text as the model sees it.
  std::string Normalised(const PlainText& plain) const;
  // Appends the tokens of a character of `plain`, `offset` bytes from its begin, or of a byte that
  // is not UTF-8.
  void AppendSymbols(absl::string_view character, size_t offset, std::vector<int32_t>& symbols,
                     EncodedText& encoded) const;

  PreTokenizer pre_tokenizer_;
  const Vocabulary& vocabulary_;
  BpeEncoder encoder_;
  Options options_;
};

}  // namespace baton
