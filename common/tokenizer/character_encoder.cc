#include "common/tokenizer/character_encoder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

#include "common/base/utf8.h"
#include "common/tokenizer/unicode_text.h"

namespace baton {

CharacterEncoder::CharacterEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary,
                                   std::vector<BpeEncoder::Merge> merges, const Options& options)
    : pre_tokenizer_(std::move(pre_tokenizer)),
      vocabulary_(vocabulary),
      encoder_(std::move(merges)),
      options_(options) {}

std::string CharacterEncoder::Normalised(const PlainText& plain) const {
  std::string text = options_.normal_form_c ? NormalFormC(plain.text) : std::string(plain.text);
  if (options_.replace_spaces) text = absl::StrReplaceAll(text, {{" ", kSentencePieceSpace}});
  const bool has_space = absl::StartsWith(text, kSentencePieceSpace);
  bool prefixed = plain.begins;
  switch (options_.prefix) {
    case Prefix::kNone:
      prefixed = false;
      break;
    case Prefix::kAlways:
      break;
    case Prefix::kMissing:
      prefixed = prefixed && !has_space;
      break;
    case Prefix::kFirst:
      prefixed = prefixed && !has_space && plain.offset == 0;
      break;
  }
  return prefixed ? std::string(kSentencePieceSpace) + text : text;
}

void CharacterEncoder::Encode(const PlainText& plain, EncodedText& encoded) const {
  const std::string text = Normalised(plain);
  const bool same = text == plain.text;
  BpeEncoder::Scratch scratch;
  std::vector<int32_t> symbols;
  const absl::Status split = pre_tokenizer_.Split(text, [&](absl::string_view piece) {
    if (options_.takes_known_pieces_whole) {
      const auto id = vocabulary_.Find(absl::StrReplaceAll(piece, {{kSentencePieceSpace, " "}}));
      if (id.has_value() && !absl::StrContains(piece, ' ')) {
        encoded.ids.push_back(*id);
        return;
      }
    }
    symbols.clear();
    const size_t begin = same ? static_cast<size_t>(piece.data() - text.data()) : 0;
    for (size_t at = 0; at < piece.size();) {
      const size_t size = NextUtf8Unit(piece.substr(at)).size;
      AppendSymbols(piece.substr(at, size), plain.offset + (same ? begin + at : 0), symbols,
                    encoded);
      at += size;
    }
    encoder_.EncodeSymbols(symbols, scratch, encoded.ids);
  });
  encoded.status.Update(split);
}

void CharacterEncoder::AppendSymbols(absl::string_view character, size_t offset,
                                     std::vector<int32_t>& symbols, EncodedText& encoded) const {
  // The vocabulary has a plain space for U+2581, and nothing for a plain space.
  const bool is_space = character == kSentencePieceSpace;
  const std::optional<int32_t> known =
      character == " " ? std::nullopt : vocabulary_.Find(is_space ? " " : character);
  if (known.has_value()) {
    symbols.push_back(*known);
    return;
  }
  std::vector<int32_t> bytes;
  for (const char byte : character) {
    const auto piece = vocabulary_.byte_piece(static_cast<uint8_t>(byte));
    if (options_.byte_fallback && piece.has_value()) bytes.push_back(*piece);
  }
  if (bytes.size() == character.size()) {
    symbols.insert(symbols.end(), bytes.begin(), bytes.end());
    return;
  }
  const std::optional<int32_t> unknown = vocabulary_.unknown_id();
  if (!unknown.has_value()) {
    if (encoded.first_left_out.has_value()) return;
    encoded.first_left_out = {.offset = offset, .byte = static_cast<uint8_t>(character[0])};
  } else if (!options_.fuse_unknown || symbols.empty() || symbols.back() != *unknown) {
    symbols.push_back(*unknown);
  }
}

}  // namespace baton
