// Character classes of Unicode 16 for PCRE2, whose tables in Debian 12 (10.42) are of Unicode 14.
#pragma once

#include <optional>

#include "absl/strings/string_view.h"

namespace baton {

// What stands for the class `name` inside brackets: "L", "Lu", "M", "N", "P", "S" and the like, "s"
// for white space and "d" for decimal digits. nullopt: not known here.
std::optional<absl::string_view> UnicodeClass(absl::string_view name);

}  // namespace baton
