// The escapes of UTF-16 in JSON text.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// JSON writes a character above U+FFFF as two escapes, the halves of a pair, such as "\ud83d\ude00"
// (RFC 8259, 7). What is wrong where a half stands alone, which no UTF-8 text can say, as the end of
// a sentence about the text: "has \ud83d, ...". "" if none does. It reads no more of JSON than
// its escapes. A pure function.
std::string HalfPairFault(absl::string_view json);

}  // namespace baton
