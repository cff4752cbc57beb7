// Text with its origin: what lies between the chat template and the tokenizer.
#pragma once

#include <string>

namespace baton {

// A rendered prompt is a list of pieces whose texts are concatenated. A special-token literal ("<|im_end|>") becomes a
// control token only where every one of its bytes comes from trusted text; ordinary tokens may span pieces.
struct TextPiece {
  std::string text;
  bool trusted = false;  // text of the template or of a caller who set parse_special, not of a user
  friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

}  // namespace baton
