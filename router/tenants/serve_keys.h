// The file of --serve-key-file: API keys that the operator has chosen, one a line, for a server
// without tenants.
//
//   # of the build machines
//   3f2a90c1d4e5b6078899aabbccddeeff
//
// Blank lines and lines that begin with '#' are skipped, as is white space around a key.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "router/tenants/keys_file.h"

namespace baton {

// The tenant of all these keys. It has no limits, unless the file of --api-keys declares it.
inline constexpr char kServeKeysTenant[] = "default";

// The content of the file, of at most 64 KiB. INVALID_ARGUMENT if its group or others have any
// rights to it, since it holds the keys themselves.
absl::StatusOr<std::string> ReadServeKeys(const std::string& path);
// The hashes of the keys, with their tenant. INVALID_ARGUMENT names file and line, but no key, if a
// line cannot be a key (IsApiKey) or there is none.
absl::StatusOr<KeysFile> ParseServeKeys(const std::string& path, const std::string& content);

}  // namespace baton
