// What placement tests choose among: an idle worker that can serve, and the policies.
#pragma once

#include "router/placement/placement.h"

namespace baton {

inline WorkerSnapshot IdleWorker(uint64_t id) {
  WorkerSnapshot worker;
  worker.id = id;
  worker.identity = "m";
  worker.max_model_len = 100;
  worker.block_size = 32;
  worker.free_blocks = 10;
  return worker;
}

inline constexpr PlacementPolicy kPolicies[] = {
    PlacementPolicy::kRoundRobin, PlacementPolicy::kLeastLoaded, PlacementPolicy::kPrefixAware};

}  // namespace baton
