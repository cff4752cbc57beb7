// One step through bytes that should be UTF-8: what every reader of untrusted text here agrees on.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace baton {

struct Utf8Unit {
  enum class Kind {
    kCharacter,  // one well-formed character
    kInvalid,    // a maximal subpart of an ill-formed sequence (Unicode 3.9): one U+FFFD stands for
                 // it
    kIncomplete,  // all that is left, and more bytes could make it a character
  };
  Kind kind;
  size_t size;  // bytes, 1 to 4
};

// What `bytes` begins with. REQUIRES: not empty.
Utf8Unit NextUtf8Unit(absl::string_view bytes);

}  // namespace baton
