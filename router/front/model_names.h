// The names by which clients call the model that a router serves.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// Plain values: as --served-model-name and --model-alias have them.
struct ModelNames {
  // Exact names. Answers, logs and metrics have the first, whichever name a request has.
  std::vector<std::string> served{};
  // Patterns of further names. '*' matches any characters, '?' one character.
  std::vector<std::string> aliases{};

  // NOT_FOUND, with the names that there are, unless `name` is empty, is served, or matches an
  // alias. REQUIRES: `served` is not empty.
  absl::Status Check(absl::string_view name) const;
};

}  // namespace baton
