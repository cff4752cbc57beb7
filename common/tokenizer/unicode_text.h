// What tokenizers ask of Unicode: normal form C and the kinds of characters.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// `text` in normal form C (Unicode Standard Annex 15, of Unicode 15), in O(n log n). Bytes that are
// not UTF-8 stay, and the text on either side is normalised by itself.
std::string NormalFormC(absl::string_view text);

// The bytes of the white space that `text` begins or ends with.
size_t LeadingSpace(absl::string_view text);
size_t TrailingSpace(absl::string_view text);

// Whether `text` begins or ends with a character of words: a letter, mark, decimal digit, letter
// number, connecting punctuation, or what joins letters (\w of Unicode Technical Standard 18, but
// for symbols that are letters in circles).
bool BeginsWithWord(absl::string_view text);
bool EndsWithWord(absl::string_view text);

}  // namespace baton
