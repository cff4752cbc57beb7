// What a router knows of planned workers, and whom it gives a request: by the placement code of the
// router itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "client/plan/planned_load.h"
#include "client/plan/planned_memory.h"
#include "router/placement/link_estimates.h"
#include "router/placement/placement.h"
#include "router/placement/ready_workers.h"

namespace baton {

inline constexpr uint32_t kNoWorker = UINT32_MAX;

// What a request holds of its workers, as router/fleet/lease.h counts it.
struct PlannedLease {
  uint32_t prefill = kNoWorker;  // none: the decode worker computes the prompt
  uint32_t decode = kNoWorker;   // none: it has no lease
  uint32_t prompt_tokens = 0;
  uint32_t computed_tokens = 0;  // prompt tokens that are not in a prefix cache
  bool prompt_waits = false;     // whether the prompt is still to be computed
  bool postponed = false;
  bool accepted = false;  // the decode worker has reserved memory
};

// One router, as it is, in front of all workers, with two differences: it sees the memory of
// workers and their pages as they are, where a real one sees what they reported up to 250 ms ago;
// and of more than 64 workers that hold equally much of a prompt it looks at 64. It starts no
// hedged attempts. Workers are numbered from 0 on.
//
// Not thread-safe. Borrows the holders.
class PlannedRouter {
 public:
  PlannedRouter(const PlacementOptions& options, int page_tokens, const PageHolders& holders);

  // REQUIRES: every worker is added before the first request.
  void Add(ReadyWorkers::Role role, const WorkerSnapshot& worker);
  void SetFreeBlocks(uint32_t worker, int64_t blocks);

  // Gives the request its workers, if the outcome is kPlaced.
  Placement::Outcome Place(const PlannedRequest& request, PlannedLease& lease);
  // The decode worker has reserved the prompt's memory.
  void Accepted(PlannedLease& lease);
  // It has not for so long that the prompt holds no place on its prefill worker.
  void Postponed(PlannedLease& lease);
  // The prompt was computed, which took so long.
  void Computed(PlannedLease& lease, uint32_t cached_tokens, absl::Duration compute);
  void HandedOff(const PlannedLease& lease, uint64_t bytes, absl::Duration transfer,
                 absl::Duration exposed);
  void Ended(PlannedLease& lease);

 private:
  std::vector<ReadyWorkers::Held> Held(absl::Span<const uint64_t> pages);
  WorkerSnapshot& SeenOf(uint64_t id) { return seen_[static_cast<size_t>(id - 1)]; }
  WorkerSnapshot& Seen(uint32_t worker) { return seen_[worker]; }

  const PlacementOptions options_;
  const int page_tokens_;
  const PageHolders& holders_;
  std::deque<WorkerSnapshot> seen_;  // [workers]; `ready_` borrows them
  std::vector<ReadyWorkers::Role> roles_;
  std::vector<uint64_t> listed_;  // [workers]: the turn in which Held has listed it
  ReadyWorkers ready_;
  LinkEstimates links_;
  uint64_t turn_ = 0, lists_ = 0;
};

}  // namespace baton
