// The refusal of a worker that is being shut down.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/rpc/status.h"

namespace baton {

// UNAVAILABLE with reason DRAINING and a retry after 100 ms; another worker may be tried at once.
inline absl::Status DrainingStatus(const std::string& worker, const char* stage) {
  return WithRetryInfo(WithErrorInfo(absl::UnavailableError("the worker is draining"),
                                     {kReasonDraining, stage, worker, {}}),
                       absl::Milliseconds(100));
}

}  // namespace baton
