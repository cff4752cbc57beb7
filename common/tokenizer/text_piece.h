// Text with its origin, which the chat template gives the tokenizer.
#pragma once

#include <string>

namespace baton {

// A piece of a rendered prompt. The prompt is the concatenation of its pieces' texts. The
// literal of a special token ("<|im_end|>") becomes a control token only if all its bytes are from
// trusted text; ordinary tokens may span pieces.
struct TextPiece {
  std::string text;
  bool trusted = false;  // the text is of the template or of a caller who set parse_special
  friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

}  // namespace baton
