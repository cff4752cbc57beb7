// The flag --model-sha256: the content that a model file must have.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace baton {

// INVALID_ARGUMENT unless `expected` is empty or 64 hexadecimal digits, as `sha256sum` prints them.
absl::Status ValidateModelSha256(const std::string& expected);

// INVALID_ARGUMENT names the file, what was expected and what it is, unless `digest`, the file's
// GgufFile::Digest(), is what was expected. REQUIRES: ValidateModelSha256(expected) is OK and
// `expected` is not empty.
absl::Status CheckModelSha256(const std::string& expected, const std::string& digest,
                              const std::string& path);

}  // namespace baton
