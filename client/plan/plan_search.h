// Finds the smallest fleet that keeps an objective, by replays.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "client/plan/plan_result.h"

namespace baton {

struct FleetSize {
  int prefill = 0, decode = 0;
  int total() const { return prefill + decode; }
};

// Replays the load on a fleet of this size.
using Replay = absl::FunctionRef<PlanResult(FleetSize)>;

struct FleetSearch {
  FleetSize fixed{};           // workers of each role that are given; 0: to be found
  double good_share = 0.99;    // share of the requests that must be good, above 0
  int most_workers = 1 << 16;  // most workers of one role
  int most_replays = 100;
};

struct FoundFleet {
  FleetSize size{};
  int replays = 0;
  // No smaller total keeps it, supposing that more workers of a role are never worse. False: the
  // steps of the search were larger than one worker, or its replays were used up.
  bool is_smallest = false;
};

// OUT_OF_RANGE: no fleet keeps it, of at most `most_workers` workers of each role; the message
// contains the share that the largest fleet reached. REQUIRES: not both are fixed.
absl::StatusOr<FoundFleet> FindFleet(const FleetSearch& search, Replay replay);

}  // namespace baton
