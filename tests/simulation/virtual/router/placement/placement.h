// Stands in front of router/placement/placement.h: the same function, and what the runner is given by it is
// counted.
#pragma once

#include <vector>

#include_next "router/placement/placement.h"

namespace baton {

void ObservePlacement(const std::vector<WorkerSnapshot>& prefill,
                      const std::vector<WorkerSnapshot>& decode, const Placement& placement,
                      const Placement& without_prefixes);

// The runner's call fits this one better than the function behind it.
template <typename Link>
Placement Place(const WorkerNeeds& needs, const std::vector<WorkerSnapshot>& prefill,
                const std::vector<WorkerSnapshot>& decode, const PlacementOptions& options,
                uint64_t turn, const Link& link) {
  const auto place = [&](const PlacementOptions& as) {
    return Place(needs, absl::MakeConstSpan(prefill), absl::MakeConstSpan(decode), as, turn, link);
  };
  const Placement placement = place(options);
  if (options.policy == PlacementPolicy::kPrefixAware) {
    PlacementOptions by_load = options;
    by_load.policy = PlacementPolicy::kLeastLoaded;
    ObservePlacement(prefill, decode, placement, place(by_load));
  }
  return placement;
}

}  // namespace baton
