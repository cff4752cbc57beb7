// Time inside the process. Only differences of such times mean something; changes of the wall clock
// have no effect.
#pragma once

#include <time.h>

#include <chrono>

#include "absl/time/time.h"

namespace baton {

// The steady clock as an absl::Time, so that arithmetic with Duration works.
inline absl::Time SteadyNow() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// CPU time that the calling thread has had.
inline absl::Duration ThreadCpuTime() {
  timespec time = {};
  // NOLINTNEXTLINE(misc-include-cleaner): the clock is POSIX's
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace baton
