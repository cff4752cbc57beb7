#include "common/tokenizer/byte_level_encoder.h"

#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "common/tokenizer/unicode_text.h"

namespace baton {

absl::StatusOr<ByteLevelEncoder> ByteLevelEncoder::Create(PreTokenizer pre_tokenizer,
                                                          const Vocabulary& vocabulary,
                                                          std::vector<BpeEncoder::Merge> merges,
                                                          const Options& options) {
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
        "the vocabulary has no single-byte token, so it is not a byte-level vocabulary");
  }
  return ByteLevelEncoder(std::move(pre_tokenizer), vocabulary,
                          BpeEncoder(byte_ids, std::move(merges)), options);
}

ByteLevelEncoder::ByteLevelEncoder(PreTokenizer pre_tokenizer, const Vocabulary& vocabulary,
                                   BpeEncoder encoder, const Options& options)
    : pre_tokenizer_(std::move(pre_tokenizer)),
      vocabulary_(vocabulary),
      encoder_(std::move(encoder)),
      options_(options) {}

void ByteLevelEncoder::Encode(const PlainText& plain, EncodedText& encoded) const {
  const std::string normal = options_.normal_form_c ? NormalFormC(plain.text) : std::string();
  const absl::string_view text = options_.normal_form_c ? absl::string_view(normal) : plain.text;
  const bool same = text == plain.text;
  BpeEncoder::Scratch scratch;
  const absl::Status split = pre_tokenizer_.Split(text, [&](absl::string_view piece) {
    const std::optional<int32_t> id =
        options_.takes_known_pieces_whole ? vocabulary_.Find(piece) : std::nullopt;
    if (id.has_value()) {
      encoded.ids.push_back(*id);
      return;
    }
    const std::optional<size_t> left_out = encoder_.Encode(piece, scratch, encoded.ids);
    if (!left_out.has_value() || encoded.first_left_out.has_value()) return;
    const size_t begin = static_cast<size_t>(piece.data() - text.data());
    encoded.first_left_out = {.offset = plain.offset + (same ? begin + *left_out : 0),
                              .byte = static_cast<uint8_t>(piece[*left_out])};
  });
  encoded.status.Update(split);
}

}  // namespace baton
