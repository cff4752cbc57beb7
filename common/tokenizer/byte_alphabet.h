// The alphabet of byte-level vocabularies, which write each of the 256 byte values as a printable
// character.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// Returns the bytes that `text` (UTF-8) stands for. Printable ASCII and most of Latin-1 stand for
// themselves; U+0100 onwards stand for the other 68 values ("Ġ" is the space). nullopt if a
// character is not in the alphabet.
std::optional<std::string> BytesFromAlphabet(absl::string_view text);

}  // namespace baton
