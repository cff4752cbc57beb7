// Asks a router for the fleet over HTTP.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include <nlohmann/json.hpp>

#include "common/base/http_url.h"
#include "common/certificates/credentials.h"
#include "common/certificates/tls_flags.h"

namespace baton {

// How a router is asked. `credentials` are those of `tls`, borrowed.
struct FleetAccess {
  const TlsFlags& tls;
  const Credentials& credentials;
  std::string api_key_file{};  // empty: the key in the environment, if there is one
};

// Asks the router at `url` for the fleet (docs/page.md: GET /page/fleet) and returns the answer as
// ParseFleet does. Blocks for at most some seconds. Errors say what is wrong and the remedy,
// without the address.
absl::StatusOr<nlohmann::ordered_json> FetchFleet(const HttpUrl& url, const FleetAccess& access);

}  // namespace baton
