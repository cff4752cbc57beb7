// The alphabet in which byte-level vocabularies write bytes: one printable character for each of
// the 256 values.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// The bytes that `text` (UTF-8) writes: printable ASCII and most of Latin-1 stand for themselves,
// the other 68 values are U+0100 onwards ("Ġ" is the space). Nothing when a character is not of the
// alphabet.
std::optional<std::string> BytesFromAlphabet(absl::string_view text);

}  // namespace baton
