// A stream of whole UTF-8 characters, made of token bytes that may end inside a character.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// Invalid bytes become U+FFFD, one for each maximal subpart (as in the Unicode Standard and
// WHATWG), at the same places as if all bytes were decoded at once. Not thread-safe.
class Utf8Stream {
 public:
  // Takes the next bytes and returns the characters that they complete.
  std::string Push(absl::string_view bytes);
  // Ends the text and returns U+FFFD for an unfinished character, else nothing. The stream may then
  // take another text.
  std::string Finish();

 private:
  std::string pending_;  // bytes of an unfinished character, at most 3
};

// Returns `bytes` with invalid UTF-8 replaced by U+FFFD.
std::string ReplaceInvalidUtf8(absl::string_view bytes);

}  // namespace baton
