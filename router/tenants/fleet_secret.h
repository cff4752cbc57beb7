// The secret that keeps the tenants' cached prefixes apart.
//
// Workers find cached KV by its salt and tokens, and report the hashes of held KV to every router
// (common/base/prefix_hash.h). The salt that they get is an HMAC-SHA256 under a secret of the
// fleet, over the tenant and the salt that the client chose. So no tenant hits another's prefixes,
// or infers from a page's name what is in it, whichever salt is chosen. Routers with one secret,
// also after a restart, find the same prefixes.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "router/tenants/caller.h"

namespace baton {

// Immutable and thread-safe.
class FleetSecret {
 public:
  // Reads a file of 64 hexadecimal digits, and warns if other users may read or write it.
  // INVALID_ARGUMENT names the file.
  static absl::StatusOr<FleetSecret> Read(const std::string& path);
  // Reads the file of this user on this machine, which is made once:
  // ${XDG_STATE_HOME:-$HOME/.local/state}/baton/fleet-secret.
  static absl::StatusOr<FleetSecret> OfThisUser();
  // Makes a random secret.
  static FleetSecret Random();

  // The 32 bytes that salt the prefixes of the caller's tenant, or of all tenants with its share.
  std::string SaltFor(const Caller& caller, const std::string& client_salt) const;

 private:
  explicit FleetSecret(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;  // 32
};

}  // namespace baton
