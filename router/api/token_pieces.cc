#include "router/api/token_pieces.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"

namespace baton {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, for bytes that are no UTF-8

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

void TokenPieces::Add(absl::string_view text,
                      const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& tokens) {
  text_.append(text.data(), text.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

TokenPieces::Piece TokenPieces::Take(size_t text_bytes, size_t token_count) {
  const auto end = tokens_.begin() + static_cast<std::ptrdiff_t>(token_count);
  Piece piece{.text = text_.substr(0, text_bytes),
              .tokens = {std::make_move_iterator(tokens_.begin()), std::make_move_iterator(end)}};
  text_.erase(0, text_bytes);
  tokens_.erase(tokens_.begin(), end);
  return piece;
}

std::optional<TokenPieces::Piece> TokenPieces::Next(bool last) {
  if (tokens_.empty()) {  // then the text belongs to tokens that were taken before
    if (text_.empty()) return std::nullopt;
    return Take(text_.size(), 0);
  }
  std::string bytes;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    bytes += tokens_[i].token();
    const bool more_than_text = bytes.size() > text_.size();
    const size_t common = std::min(bytes.size(), text_.size());
    if (text_.compare(0, common, bytes, 0, common) != 0) {
      // Bytes that are no UTF-8 were replaced; a token that was skipped has no text.
      const bool replaced = absl::StartsWith(text_, kReplacement);
      return Take(replaced ? kReplacement.size() : 0, i + 1);
    }
    if (more_than_text) {
      if (!last) return std::nullopt;
      return Take(text_.size(), i + 1);
    }
    const bool whole = bytes.size() == text_.size() || BeginsCharacter(text_[bytes.size()]);
    if (!bytes.empty() && whole) return Take(bytes.size(), i + 1);
  }
  if (!last) return std::nullopt;
  return Take(text_.size(), tokens_.size());
}

}  // namespace baton
