// Stands in for common/base/clock.h: the time is the simulation's.
#pragma once

#include "absl/time/time.h"

namespace baton {
inline namespace simulated {

absl::Time SteadyNow();

}  // namespace simulated
}  // namespace baton
