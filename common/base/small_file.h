// Reads and replaces files that are small: keys, secrets, settings. Thread-safe.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// The content of the file. INVALID_ARGUMENT names the path when it cannot be read or holds more than
// `max_bytes`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

// Replaces or makes the file in one step, so that its readers see the old or the new one. Only its
// owner may read the new one. INVALID_ARGUMENT names the path.
absl::Status ReplaceSmallFile(const std::string& path, absl::string_view content);

}  // namespace baton
