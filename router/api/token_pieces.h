// Assigns tokens to the pieces of a text, if a request asks for log probabilities.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "baton/v1/generation.pb.h"

namespace baton {

// Cuts the text of one choice where its tokens end. Tokens come with their text or before it, since
// the router holds back what may become a stop string; a token may have no text (a special one), or
// a part of a character, or more text than is shown (before a stop string). How text and tokens are
// cut into responses does not matter. Without tokens the text passes as it comes. Takes time linear
// in text and tokens, also where they come at once. Not thread-safe.
class TokenPieces {
 public:
  struct Piece {
    std::string text{};                      // whole characters
    std::vector<v1::TokenLogprob> tokens{};  // tokens of the text, in order
  };

  // `token` of each one holds its bytes.
  void Add(absl::string_view text,
           const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& tokens);
  // The next piece that is certain; `last`: nothing will be added any more.
  std::optional<Piece> Next(bool last);

 private:
  Piece Take(size_t text_bytes, size_t token_count);

  std::string text_;
  size_t begin_ = 0;  // bytes of `text_` that were taken
  std::deque<v1::TokenLogprob> tokens_;
  size_t textless_ = 0;  // tokens at the front that have no bytes, as far as they were looked at
};

}  // namespace baton
