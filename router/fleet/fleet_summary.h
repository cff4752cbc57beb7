// The summary of a fleet that every thread of the router may read.
#pragma once

#include "router/fleet/fleet.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/worker.h"

namespace baton {

// Returns the summary of `workers`, which are those of `fleet`. With `expose_workers` it names
// workers as they name themselves. On the loop's thread only.
FleetSummary Summarize(const WorkersByTarget& workers, Fleet& fleet, bool expose_workers);

}  // namespace baton
