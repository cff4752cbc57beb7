// One step through bytes that should be UTF-8, on which all readers of untrusted text agree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace baton {

struct Utf8Unit {
  enum class Kind {
    kCharacter,   // one well-formed character
    kInvalid,     // a maximal subpart of an ill-formed sequence (Unicode 3.9): becomes one U+FFFD
    kIncomplete,  // all remaining bytes, which more bytes could make a character
  };
  Kind kind;
  size_t size;  // bytes, 1 to 4
};

// The unit that `bytes` begins with. REQUIRES: `bytes` is not empty.
Utf8Unit NextUtf8Unit(absl::string_view bytes);

// The code point of one well-formed character. REQUIRES: `character` is one.
uint32_t CodePointOf(absl::string_view character);

// Whether all of `bytes` are well-formed characters.
bool IsUtf8(absl::string_view bytes);

}  // namespace baton
