#include "common/tokenizer/byte_level_encoder.h"

#include <array>
#include <utility>

#include "absl/status/status.h"

namespace baton {

absl::StatusOr<ByteLevelEncoder> ByteLevelEncoder::Create(PreTokenizer pre_tokenizer,
                                                          const Vocabulary& vocabulary,
                                                          std::vector<BpeEncoder::Merge> merges) {
  const int32_t unknown = vocabulary.unknown_id().value_or(BpeEncoder::kNoToken);
  std::array<int32_t, 256> byte_ids;
  bool any = false;
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
    const char value = static_cast<char>(byte);
    const std::optional<int32_t> id = vocabulary.Find(absl::string_view(&value, 1));
    byte_ids[byte] = id.value_or(unknown);
    any |= id.has_value();
  }
  if (!any) {
    return absl::InvalidArgumentError(
        "tokenizer.ggml.tokens has no token of a single byte: not a byte-level vocabulary");
  }
  return ByteLevelEncoder(std::move(pre_tokenizer), vocabulary,
                          BpeEncoder(byte_ids, std::move(merges)));
}

ByteLevelEncoder::ByteLevelEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary,
                                   BpeEncoder encoder)
    : pre_tokenizer_(std::move(pre_tokenizer)),
      vocabulary_(vocabulary),
      encoder_(std::move(encoder)) {}

void ByteLevelEncoder::Encode(const PlainText& plain, EncodedText& encoded) const {
  const bool whole = pre_tokenizer_.takes_known_pieces_whole();
  BpeEncoder::Scratch scratch;
  size_t offset = plain.offset;
  pre_tokenizer_.Split(plain.text, [&](absl::string_view piece) {
    const std::optional<int32_t> id = whole ? vocabulary_.Find(piece) : std::nullopt;
    if (id.has_value()) {
      encoded.ids.push_back(*id);
    } else {
      const auto left_out = encoder_.Encode(piece, scratch, encoded.ids);
      if (left_out.has_value() && !encoded.first_left_out.has_value()) {
        encoded.first_left_out = {.offset = offset + *left_out,
                                  .byte = static_cast<uint8_t>(piece[*left_out])};
      }
    }
    offset += piece.size();
  });
}

}  // namespace baton
