// Reads TOML.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "absl/status/statusor.h"

namespace baton {

// The table that `text` says; `path` names its file in errors. INVALID_ARGUMENT, with line and
// column, if it is not TOML. Thread-safe.
absl::StatusOr<toml::table> ParseToml(const std::string& path, const std::string& text);

}  // namespace baton
