#include "router/api/token_pieces.h"

#include <algorithm>
#include <iterator>
#include <utility>

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
  Piece piece{.text = text_.substr(begin_, text_bytes),
              .tokens = {std::make_move_iterator(tokens_.begin()), std::make_move_iterator(end)}};
  begin_ += text_bytes;
  if (begin_ > text_.size() / 2) text_.erase(0, std::exchange(begin_, 0));
  tokens_.erase(tokens_.begin(), end);
  textless_ = 0;
  return piece;
}

std::optional<TokenPieces::Piece> TokenPieces::Next(bool last) {
  const absl::string_view text = absl::string_view(text_).substr(begin_);
  if (tokens_.empty()) {  // then the text belongs to tokens that were taken before
    if (text.empty()) return std::nullopt;
    return Take(text.size(), 0);
  }
  std::string bytes;
  for (size_t i = textless_; i < tokens_.size(); ++i) {
    bytes += tokens_[i].token();
    if (bytes.empty()) {
      textless_ = i + 1;
      continue;
    }
    const bool more_than_text = bytes.size() > text.size();
    const size_t common = std::min(bytes.size(), text.size());
    if (text.substr(0, common) != absl::string_view(bytes).substr(0, common)) {
      // Bytes that are no UTF-8 were replaced; a token that was skipped has no text.
      const bool replaced = absl::StartsWith(text, kReplacement);
      return Take(replaced ? kReplacement.size() : 0, i + 1);
    }
    if (more_than_text) {
      if (!last) return std::nullopt;
      return Take(text.size(), i + 1);
    }
    const bool whole = bytes.size() == text.size() || BeginsCharacter(text[bytes.size()]);
    if (whole) return Take(bytes.size(), i + 1);
  }
  if (!last) return std::nullopt;
  return Take(text.size(), tokens_.size());
}

}  // namespace baton
