// Receives the events of the requests' machines.
#pragma once

#include <cstddef>

#include "absl/time/time.h"

#include "router/request/events.h"
#include "router/request/request_machine.h"

namespace baton {

// Two implementations: RouterMetrics, which counts tokens, and the simulation's, which counts
// transitions. On the loop's thread only.
class RequestObserver {
 public:
  // What was seen of one request.
  struct Seen {
    size_t tokens = 0;                             // accepted, of all choices
    absl::Time last_token = absl::InfinitePast();  // when the last of them came
  };
  virtual ~RequestObserver() = default;
  // The machine has handled `event` at `now`; its actions are not done yet. `seen` was filled by
  // this observer, for the same request.
  virtual void Handled(const RequestMachine& machine, const RequestEvent& event, Seen& seen,
                       absl::Time now) = 0;
};

}  // namespace baton
