// Time inside the process: the steady clock as an absl::Time, so that arithmetic with Duration
// works. Only differences of such times mean something. Changes of the wall clock have no effect.
#pragma once

#include <chrono>

#include "absl/time/time.h"

namespace baton {

inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace baton
