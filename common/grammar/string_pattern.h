// Writes patterns of JSON strings anew, so that XGrammar 0.2.8 holds the strings to what they say.
//
// Its automata have three mistakes. An optional part that ends in a repetition may be left out but
// for its end: "(x[0-9]+)?" matches "00". A group that is repeated without a bound may be cut short
// in the same way. An atom that is repeated more than 128 times may match quotes and control
// characters, which end a JSON string or may not stand in it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// More repetitions than this are made otherwise, by rules.
inline constexpr int kMaxUnrolledRepetitions = 128;

// An expression that matches what `pattern`, of printable ASCII, does. INVALID_ARGUMENT says what
// cannot be written so.
absl::StatusOr<std::string> SoundPattern(absl::string_view pattern);

}  // namespace baton
