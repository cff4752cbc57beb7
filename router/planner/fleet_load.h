// What the planner is told of a fleet: counters, and what is so now.
#pragma once

#include <cstdint>

#include "router/planner/demand.h"

namespace baton {

// Of the requests of one router; of its workers what these requests showed.
struct FleetLoad {
  DemandCounts demand{};
  uint64_t refused = 0;  // requests that were turned away because of the load, unread
  // Of all prefill workers together; they only grow.
  double computed_tokens = 0;  // of prompts
  double busy_seconds = 0;     // worker-seconds in which a worker had a prompt of this router
  // The same as the workers themselves told it of prompts that ended.
  double told_tokens = 0;
  double told_seconds = 0;
  // Now.
  double decoding = 0;                               // sequences that decode workers generate for
  uint32_t prefill_workers = 0, decode_workers = 0;  // that are ready
};

}  // namespace baton
