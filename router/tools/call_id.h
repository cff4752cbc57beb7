// Ids of calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

inline constexpr size_t kCallIdBytes = 24;

// The id of a choice's call: letters and digits that follow from the arguments alone.
std::string CallId(uint64_t seed, int choice, int call);
// `bytes` letters and digits in the place of an id, for templates that want ids of one length.
// REQUIRES: bytes <= 32.
std::string ShortId(absl::string_view id, size_t bytes);

}  // namespace baton
