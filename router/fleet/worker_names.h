// Applies changes in DNS to the workers that a router knows. On the loop's thread only.
#pragma once

#include <vector>

#include "router/fleet/worker.h"
#include "router/fleet/worker_targets.h"

namespace baton {

// Takes what DNS says about the worker's target, and sets `wanted` and `moved`. `listed`: the
// target is among the targets.
void TakeName(Worker& worker, bool listed, const TargetNames& names);

// Whether a worker whose name vanished may stay: it answers and does not drain.
bool AnswersWithoutName(const Worker& worker);

// Whether all of `unready` are addresses that never answered, of a family (IPv4 or IPv6) of which
// none ever did, behind a name that has a ready worker of the other family. Such addresses stand
// for no worker of their own.
bool AreOfDeadFamilies(const std::vector<const Worker*>& unready, const WorkersByTarget& workers);

}  // namespace baton
