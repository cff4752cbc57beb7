// The name of a model that no flag names.
#pragma once

#include <string>

namespace baton {

// Returns the name of the model file or folder at `path`, without its folder and without ".gguf".
// The router and the workers of one file agree on it, so that their metrics can be joined.
std::string DefaultModelName(const std::string& path);

}  // namespace baton
