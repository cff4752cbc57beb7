// `baton serve`: router and workers on this machine, watched.
#pragma once

#include "absl/time/time.h"

#include "client/local_cluster.h"

namespace baton {

// Runs until SIGINT or SIGTERM, restarting what dies. Prints `ready: grpc://ADDRESS` on stdout once
// a request would succeed. The exit code: 0, or 2 when a child refused its flags or model.
int ServeCommand(const LocalClusterOptions& options, absl::Duration shutdown_timeout);

}  // namespace baton
