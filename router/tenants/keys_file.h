// The file of --api-keys: the tenants, and the keys by which they are known.
//
//   [tenants."acme"]
//   requests-per-second = 20     # a missing limit means no limit
//   tokens-per-minute = 600000   # prompts and outputs together
//   streams = 16                 # answers at a time: each choice of each prompt is one
//   min-priority = 0             # the range of its requests' `priority`; these are the defaults
//   max-priority = 2147483647
//   share = "docs"               # tenants with equal names share cached prefixes
//   operator = true              # its keys open the router's page (docs/page.md); left out: they do not
//
//   [[keys]]
//   tenant = "acme"
//   sha256 = "..."               # the hash that `baton keys` writes (router/tenants/api_key.h)
//   revoked = true               # left out: the key is good
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

inline constexpr size_t kMaxTenants = 1024;
inline constexpr size_t kMaxApiKeys = 16384;

// What a tenant may ask for. 0 is no limit.
struct Tenant {
  double requests_per_second = 0;
  uint32_t tokens_per_minute = 0;
  uint32_t streams = 0;
  // A lower number is served sooner, so by default no request gets ahead of one without a priority.
  int32_t min_priority = 0;
  int32_t max_priority = std::numeric_limits<int32_t>::max();
  std::string share{};    // empty: its prefixes are its own
  bool operates = false;  // it looks after the fleet, and may see all of it

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

struct ApiKeyEntry {
  std::string hash;  // 32 bytes
  std::string tenant{};
  bool revoked = false;

  friend bool operator==(const ApiKeyEntry&, const ApiKeyEntry&) = default;
};

struct KeysFile {
  std::map<std::string, Tenant> tenants;  // by name
  std::vector<ApiKeyEntry> keys;          // each of a tenant above; no hash stands twice

  friend bool operator==(const KeysFile&, const KeysFile&) = default;
};

// OK if `name` may be a tenant's or a share's: 1 to 64 letters, digits and ". _ - /".
absl::Status CheckTenantName(const std::string& name);

// INVALID_ARGUMENT names file, line and key, and how it must be. FormatKeysFile writes what
// ParseKeysFile reads; comments are not kept.
absl::StatusOr<KeysFile> ParseKeysFile(const std::string& path, const std::string& content);
std::string FormatKeysFile(const KeysFile& file);

// The content of the file, of at most 8 MiB.
absl::StatusOr<std::string> ReadKeysText(const std::string& path);
// Replaces the file as WriteSmallFile does.
absl::Status WriteKeysFile(const std::string& path, const KeysFile& file);

}  // namespace baton
