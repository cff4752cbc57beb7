// The planner's input about a fleet: counters and the present state.
#pragma once

#include <cstdint>

#include "router/planner/demand.h"

namespace baton {

// The load of one router's requests, and of its workers as far as these requests show it.
struct FleetLoad {
  DemandCounts demand{};
  uint64_t refused = 0;  // requests that were turned away because of the load, unread
  // Sums over all prefill workers; they only grow.
  double computed_tokens = 0;  // prompt tokens
  double busy_seconds = 0;     // worker-seconds in which a worker had a prompt of this router
  // The same by the workers' own reports about prompts that ended.
  double told_tokens = 0;
  double told_seconds = 0;
  // Now.
  double decoding = 0;                               // sequences that decode workers generate for
  uint32_t prefill_workers = 0, decode_workers = 0;  // ready workers
};

}  // namespace baton
