// Asks a server for its health (grpc.health.v1).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace baton {

// Returns OK if `service` at `address` (host:port, no TLS) answers SERVING within `timeout`.
// Blocks.
absl::Status CheckHealth(const std::string& address, const std::string& service,
                         absl::Duration timeout);

}  // namespace baton
