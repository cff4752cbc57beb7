// Names of tools.
#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace baton {

inline constexpr size_t kMaxToolNameBytes = 128;

inline bool IsToolNameByte(char byte) {
  return absl::ascii_isalnum(static_cast<unsigned char>(byte)) || byte == '_' || byte == '-' ||
         byte == '.';
}
inline bool IsToolName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::all_of(name.begin(), name.end(), IsToolNameByte);
}

}  // namespace baton
