// Prefill workers whose KV a decode worker has found to be wrong.
#pragma once

#include <functional>

#include "baton/internal/v1/worker.pb.h"
#include "router/fleet/fleet.h"
#include "router/fleet/worker.h"

namespace baton {

// Takes a decode worker's list of quarantined pushers, which a message contains as a whole, up to
// the bounds of worker.proto. Returns whether the list has changed. Ignores a prefill worker's.
bool TakeQuarantines(Worker& worker, const internal::v1::WatchResponse& message);

// Sets `quarantined_by` of each prefill worker that any decode worker of `workers` quarantines, and
// clears it of the others. Reports each change to the log, to the fleet, and to `on_change` unless
// it is null. On the loop's thread only.
void JudgeQuarantines(const WorkersByTarget& workers, Fleet& fleet,
                      const std::function<void(const WorkerTarget&, bool)>& on_change);

}  // namespace baton
