// The workers by id, as placement and leases see them: which are ready, what they hold of prompts,
// how fast their links are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "router/calls/event_loop.h"
#include "router/fleet/link_failures.h"
#include "router/fleet/worker.h"
#include "router/fleet/worker_pages.h"
#include "router/placement/link_estimates.h"
#include "router/placement/placement.h"
#include "router/placement/ready_workers.h"

namespace baton {

// Borrows each worker from its first AddUnderNewId until Remove. On the loop's thread only.
// Outlives every Lease.
class Fleet {
 public:
  // Called when a worker's circuit breaker has opened or closed. May be null.
  using OnCircuit = std::function<void(const WorkerTarget&, bool open)>;
  // Borrows `loop`, whose time is the fleet's.
  explicit Fleet(const EventLoop& loop, OnCircuit on_circuit = nullptr)
      : loop_(loop), on_circuit_(std::move(on_circuit)) {}

  // From now on the worker has an id that none had before. What the worker was given under an
  // earlier id is lost.
  void AddUnderNewId(Worker& worker) { SetId(worker, next_id_++); }
  // The worker has no id any more. Does nothing when it has none.
  void Remove(Worker& worker) { SetId(worker, 0); }
  // Null when no worker has that id, or 0 is asked for.
  Worker* Find(uint64_t id) const;

  // To be called after the worker's ready() may have changed.
  void ReadinessChanged(Worker& worker);
  // To be called after the worker's breaker or what it was given has changed.
  void LoadChanged(Worker& worker);

  // Ready workers that a request of that prompt may be given to.
  ReadyWorkers::Candidates Choose(const WorkerNeeds& needs, absl::Span<const int32_t> prompt,
                                  const std::string& salt, const PlacementOptions& options,
                                  uint64_t turn) const;
  LinkEstimate Link(uint64_t prefill, uint64_t decode) const;

  absl::Time Now() const { return loop_.Now(); }
  const ReadyWorkers& ready() const { return ready_; }
  WorkerPages& pages() { return pages_; }
  LinkEstimates& links() { return links_; }
  LinkFailures& link_failures() { return link_failures_; }

 private:
  void SetId(Worker& worker, uint64_t id);

  const EventLoop& loop_;
  const OnCircuit on_circuit_;
  absl::flat_hash_map<uint64_t, Worker*> by_id_;
  ReadyWorkers ready_;
  WorkerPages pages_;
  LinkEstimates links_;
  LinkFailures link_failures_;
  uint64_t next_id_ = 1;
};

}  // namespace baton
