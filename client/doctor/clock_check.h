// Whether this machine's clock agrees with a server's.
#pragma once

#include <string>

#include "absl/time/time.h"

#include "client/doctor/finding.h"

namespace baton {

// A time that a server reported, somewhere between two moments of this machine's clock.
struct ClockFacts {
  std::string server{};      // its address
  absl::Time before, after;  // the two moments of this machine
  absl::Time told;           // the time that the server reported
  // How much later than `told` the server's moment may have been, for what it rounds off.
  absl::Duration rounding{};
  // What the monotonic clock counted between `before` and `after`.
  absl::Duration elapsed{};
};

// clock.offset: failed where the clocks surely differ by more than certificates are backdated, a
// warning by more than logs can stand; and clock.steady: whether both clocks of this machine
// counted the same. Pure.
Findings ClockFindings(const ClockFacts& facts);

}  // namespace baton
