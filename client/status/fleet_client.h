// Asks a router for the fleet over HTTP.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include <nlohmann/json.hpp>

#include "common/certificates/credentials.h"
#include "common/certificates/tls_flags.h"

namespace baton {

// How a router is asked. `credentials` are those of `tls`, borrowed.
struct FleetAccess {
  const TlsFlags& tls;
  const Credentials& credentials;
  std::string api_key_file{};  // empty: the key in the environment, if there is one
};

// What the router whose HTTP is at `address` says of the fleet (docs/page.md: GET /page/fleet), as
// ParseFleet gives it. Blocks for at most some seconds. Errors say what is wrong and the remedy,
// without the address.
absl::StatusOr<nlohmann::ordered_json> FetchFleet(const std::string& address,
                                                  const FleetAccess& access);

}  // namespace baton
