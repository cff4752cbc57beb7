// Finds workers for the attempts that ask for some, in the order of FairQueue.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/calls/event_loop.h"
#include "router/dispatch/admission.h"
#include "router/dispatch/fair_queue.h"
#include "router/fleet/fleet.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/lease.h"
#include "router/placement/placement.h"
#include "router/request/events.h"

namespace baton {

// The workers of one attempt. They are borrowed: valid until the loop's task ends.
struct Assignment {
  uint32_t attempt = 0;
  const Worker* prefill = nullptr;  // null: the prompt is computed on the decode worker
  const Worker* decode = nullptr;   // null: one token remains, the prefill worker's
  Lease lease;
};

// A request takes part from Enter until Leave. Each of its attempts asks for itself; the request
// waits in line while it has asks, for the first of them. A request that no ready worker could
// serve stands aside, so that others go on without it. Bounded by admission. On the loop's thread
// only; the loop holds tasks of the dispatcher's, and must not run any after its end.
class Dispatcher {
 public:
  struct Parts {
    EventLoop& loop;
    Fleet& fleet;
    const FleetView& view;
    Admission& admission;
    PlaceFunction place;
  };
  struct Options {
    PlacementOptions placement;
    absl::Duration no_worker_grace = absl::Seconds(2);  // none is ready: one may be about to be
    absl::Duration resume_grace = absl::Seconds(30);  // the same for a request whose workers broke
  };
  // Called from tasks of the loop, never from inside Ask; both may call the dispatcher.
  struct Handlers {
    // An ask is answered.
    std::function<void(uint64_t number, Assignment)> on_placed;
    // The request will get no worker, or none in time. It is to Leave.
    std::function<void(uint64_t number, const absl::Status& why)> on_given_up;
  };
  Dispatcher(const Parts& parts, const Options& options, Handlers handlers);

  // Borrows `spec` and `ticket` until Leave. REQUIRES: the number is not inside.
  void Enter(uint64_t number, const RequestSpec& spec, Admission::Ticket& ticket);
  // The request and its asks are forgotten. Does nothing when the number is not inside.
  void Leave(uint64_t number);
  // How many hand-offs of the request have failed in a row. REQUIRES: the number is inside.
  void SetFailedHandOffs(uint64_t number, uint32_t failed_in_a_row);

  // An attempt needs workers. Ignored when the number is not inside.
  void Ask(uint64_t number, ChooseWorkers ask);
  // Answers at once an attempt that would take the place of another one, which holds `beside`
  // (null: no longer) and waits there for memory. Only if there is room now, and not before
  // those that have no workers yet. REQUIRES: the number is inside.
  std::optional<Assignment> TryElsewhere(uint64_t number, ChooseWorkers ask, Lease* beside);

  // A worker may have room for another prompt: those that wait are placed in a task of its own.
  void PlaceSoon();
  // Workers have changed: those that wait are placed now.
  void PlaceWaiting();

  const Options& options() const { return options_; }

 private:
  struct Request {
    const RequestSpec& spec;
    Admission::Ticket& ticket;
    uint32_t failed_hand_offs = 0;   // in a row
    std::deque<ChooseWorkers> asks;  // the oldest first
    // Since when no ready worker could serve it; InfiniteFuture: some worker could.
    absl::Time none_ready_since = absl::InfiniteFuture();
  };

  void Enqueue(uint64_t number, Request& request);
  ReadyWorkers::Candidates FindCandidates(const Request& request, WorkerNeeds& needs) const;
  Placement Choose(const WorkerNeeds& needs, const ReadyWorkers::Candidates& candidates) const;
  Assignment Assign(const ChooseWorkers& ask, const ReadyWorkers::Candidates& candidates,
                    const Placement& placement);
  // The first in line is placed.
  void PlaceFront(uint64_t number, Request& request, const ReadyWorkers::Candidates& candidates,
                  const Placement& placement, absl::Time now);
  // The first in line waits for what is not there.
  void SetAside(uint64_t number, Request& request, absl::Time now);
  // Gives up those that wait and will get no worker in time, now and for as long as some wait.
  void Sweep();
  void SweepAt(absl::Time at);
  // Records in the pages how much of the prompt the chosen workers hold.
  void CountReuse(const RequestSpec& spec, const ReadyWorkers::Candidates& candidates,
                  const Placement& placement);
  absl::Status WhyNoWorker() const;

  const Parts parts_;
  const Options options_;
  const Handlers handlers_;
  std::map<uint64_t, Request> requests_;
  FairQueue waiting_;                // requests that wait for busy workers
  std::vector<uint64_t> set_aside_;  // requests that no ready worker could serve
  uint64_t turn_ = 0;
  bool placing_soon_ = false;  // a task that places is posted
  bool sweeping_ = false;      // Sweep has a timer
};

}  // namespace baton
