// The TOML file that --config names.
#pragma once

#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"

namespace baton {

// Values of each key as text: one, or those of an array.
using ConfigValues = absl::btree_map<std::string, std::vector<std::string>>;

// Strings, numbers, booleans and arrays of them at the top level; anything else, and a file that is
// no TOML, is INVALID_ARGUMENT with file and line.
absl::StatusOr<ConfigValues> ReadConfigFile(const std::string& path);

}  // namespace baton
