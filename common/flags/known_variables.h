// Variables BATON_... of the environment that are no flag's: misspelt ones are found here.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

// The variable of the environment that sets --`flag`: BATON_SOME_NAME for --some-name.
std::string EnvironmentName(absl::string_view flag);

// Whether Baton's programs or scripts read the variable, or Kubernetes makes it of a Service:
// BATON_ROUTER_SERVICE_HOST, BATON_ROUTER_PORT_50051_TCP and so on. `flags`: flags of this program.
bool IsKnownVariable(absl::string_view name, absl::string_view value,
                     const std::vector<std::string>& flags);

// Returns true once for a process and all that it starts: then it looks for unknown variables.
// REQUIRES: no other thread runs.
bool TakeVariablesCheck();

// Returns a sentence for each variable BATON_... of the environment that is not known, in the order
// of their names. It suggests the variable of the most similar flag.
std::vector<std::string> UnknownVariables(const std::vector<std::string>& flags);

}  // namespace baton
