// Names of tools.
#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace baton {

inline constexpr size_t kMaxToolNameBytes = 128;
// What IsToolName requires, for errors.
inline constexpr absl::string_view kToolNameRule =
    "must be 1 to 128 letters, digits, '_', '-' and '.'";

inline bool IsToolNameByte(char byte) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || byte == '_' || byte == '-' ||
         byte == '.';
}
inline bool IsToolName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::all_of(name.begin(), name.end(), IsToolNameByte);
}

}  // namespace baton
