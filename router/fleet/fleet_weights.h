// Finds the workers whose weights differ from those that the router uses.
#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"

#include "router/fleet/expected_model.h"
#include "router/fleet/worker.h"

namespace baton {

// Returns the digest of the weights that are used: those that most of the wanted workers reported
// last, also workers that cannot be reached. Of several such weights: those that come first in
// `expected.sample_digests`, and then `used`, which were used so far. Workers with another problem
// and workers without a digest do not count. Empty if no worker counts. On the loop's thread only.
std::string ChooseWeights(const WorkersByTarget& workers, const ExpectedModel& expected,
                          const std::string& used);

// Sets `other_weights` and `problem` of the wanted workers whose weights are not `used`, and clears
// both of those whose weights are. Logs each change, and then calls `changed`.
void MarkOtherWeights(const WorkersByTarget& workers, const std::string& used, absl::Time now,
                      const std::function<void(Worker&)>& changed);

}  // namespace baton
