// Turns text without literals of special tokens into tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// The tokens of a text so far, and what went wrong.
struct EncodedText {
  struct LeftOut {
    // In the whole text; where normalisation has changed the part of it that lies between two
    // literals, that part's.
    size_t offset;
    uint8_t byte;
  };
  std::vector<int32_t> ids;
  std::optional<LeftOut> first_left_out;  // the first byte that no token can stand for
  absl::Status status;                    // not OK: the text cannot be encoded at all
};

// A part of a text, between literals.
struct PlainText {
  absl::string_view text;  // not empty
  size_t offset = 0;       // offset of its first byte in the whole text
  bool begins = false;  // the whole text or what follows a literal, so that a space may be put in
};

// Immutable and thread-safe.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the tokens of `plain` in at most O(n log n). REQUIRES: less than 1 GiB of text.
  virtual void Encode(const PlainText& plain, EncodedText& encoded) const = 0;
};

}  // namespace baton
