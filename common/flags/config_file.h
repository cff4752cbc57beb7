// The reader of the TOML file that --config names.
#pragma once

#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"

namespace baton {

// The values of each key as text: one value, or those of an array.
using ConfigValues = absl::btree_map<std::string, std::vector<std::string>>;

// Reads the file at `path`, which may have strings, numbers, booleans and arrays of them at the top
// level. INVALID_ARGUMENT, with file and line, for any other value and for a file that is not TOML.
absl::StatusOr<ConfigValues> ReadConfigFile(const std::string& path);

}  // namespace baton
