// Time inside the process: the steady clock as an absl::Time, so that Duration arithmetic works.
// Only differences mean something; a change of the wall clock does not move it.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace baton {

inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace baton
