// How a worker that is being shut down says so.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/rpc/status.h"

namespace baton {

// UNAVAILABLE, reason DRAINING, to be tried again at once on another worker.
inline absl::Status DrainingStatus(const std::string& worker, const char* stage) {
  return WithRetryInfo(WithErrorInfo(absl::UnavailableError("the worker is draining"),
                                     {kReasonDraining, stage, worker, {}}),
                       absl::Milliseconds(100));
}

}  // namespace baton
