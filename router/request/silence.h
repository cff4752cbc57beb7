// When a worker counts as silent in a call to it.
#pragma once

#include "absl/time/time.h"

#include "router/request/request_state.h"

namespace baton {

// A value; not thread-safe.
class Silence {
 public:
  // The call was opened, or a message came in it: `timeout` counts from `now` on. Keeps the time
  // that was set before if the new one is hardly later (kTimerSteps).
  void Heard(absl::Time now, absl::Duration timeout) {
    const bool moves =
        at_ == absl::InfiniteFuture() || now + timeout - at_ >= timeout / kTimerSteps;
    // tests/planted_bugs: router_silence_counts_from_the_start
    if (moves) at_ = now + timeout;
  }
  // Nothing is expected of the call.
  void Stop() { at_ = absl::InfiniteFuture(); }
  // Infinite before the first Heard and after Stop.
  absl::Time at() const { return at_; }

 private:
  absl::Time at_ = absl::InfiniteFuture();
};

}  // namespace baton
