// Streams whole UTF-8 characters out of token bytes that may end anywhere.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// Turns a stream of token bytes into a stream of whole UTF-8 characters. What is invalid becomes
// U+FFFD (one for each maximal subpart, as in the Unicode Standard and WHATWG), in the same places
// as in a decoding of the whole sequence at once. One stream's; not thread-safe.
class Utf8Stream {
 public:
  // The characters that `bytes` completes.
  std::string Push(absl::string_view bytes);
  // What is left at the end: U+FFFD for an unfinished character. The stream may then be used for
  // another text.
  std::string Finish();

 private:
  std::string pending_;  // the beginning of a character, at most 3 bytes
};

// All of `bytes` at once.
std::string ReplaceInvalidUtf8(absl::string_view bytes);

}  // namespace baton
