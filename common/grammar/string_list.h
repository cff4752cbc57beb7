// A list of byte strings as bytes: what goes to the compiler's process and comes back, and a
// grammar on the wire. All functions are pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// Appends the length of `text` (4 bytes, little-endian) and `text` to `list`. REQUIRES: `text` is
// shorter than 4 GiB.
void AppendString(absl::string_view text, std::string& list);

// The strings that were appended; they point into `list`. DATA_LOSS if `list` ends within one.
absl::StatusOr<std::vector<absl::string_view>> ReadStrings(absl::string_view list);

}  // namespace baton
