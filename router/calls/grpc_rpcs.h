// The RPCs of one worker over gRPC's callback API.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "common/certificates/credentials.h"
#include "router/calls/worker_rpcs.h"

namespace baton {

// Does not connect yet; with certificates it connects only to a worker of that role. The error
// names the address: one that does not parse, or one that the credentials do not allow.
absl::StatusOr<std::unique_ptr<WorkerRpcs>> ConnectOverGrpc(internal::v1::WorkerRole role,
                                                            const std::string& address,
                                                            const Credentials& credentials);

}  // namespace baton
