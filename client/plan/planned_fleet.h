// Replays a load on planned workers: a discrete-event model of a fleet.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "bench/serve/report/load_objective.h"
#include "bench/serve/target/load_record.h"
#include "client/plan/fleet_tally.h"
#include "client/plan/plan_result.h"
#include "client/plan/planned_engine.h"
#include "client/plan/planned_events.h"
#include "client/plan/planned_load.h"
#include "client/plan/planned_memory.h"
#include "client/plan/planned_network.h"
#include "client/plan/planned_router.h"
#include "client/plan/step_costs.h"

namespace baton {

struct FleetOptions {
  int prefill_workers = 1, decode_workers = 1;
  PlacementOptions placement{};
  PlannedEngine::Options prefill{}, decode{};
  int64_t prefill_kv_tokens = 0, decode_kv_tokens = 0;  // capacity of a worker's KV cache
  double link_bytes_per_s = 0;                          // each way, per worker
  int64_t request_overhead_ns = 0;   // from when a request comes until it asks for workers
  int64_t max_queue_ns = INT64_MAX;  // a request that waits longer in the router is refused
  LoadObjective objective{};
  uint64_t most_bad = UINT64_MAX;  // it stops where more requests than that are not good
};

// Runs in virtual time, event by event, in the order of their times and, at one time, of their
// making; nothing depends on a clock, a thread or an address. Equal inputs give equal results.
//
// The way of a request, each step at a moment of its own:
//  * It comes, and asks for workers after the overhead, in the order of arrival. The router is
//    PlannedRouter. A request that finds none waits; requests do not overtake each other.
//  * The decode worker's engine reserves its blocks, in the order of arrival, when a step begins.
//  * Then the prefill worker's engine computes the prompt in chunks, at most as many rows a step as
//    the step sizer of the engine allows.
//  * Each layer's KV is sent while the next layer is computed, over the prefill worker's network
//    and the decode worker's, each of which carries one hand-off after the other. What the decode
//    worker holds of the prompt is not sent.
//  * With the last byte comes the first token, and the sequence joins the decode worker's next
//    step.
//  * A decode worker that is to compute the prompt does so beside its decodes.
// Not in the model: failures, hedged and repeated attempts, guessed tokens, several choices,
// attention windows, stop strings, tenants, slow clients, and what router and network cost beyond
// the overhead.
class PlannedFleet {
 public:
  // Borrows the costs and the load.
  PlannedFleet(const FleetOptions& options, const StepCosts& prefill, const StepCosts& decode,
               const PlannedLoad& load);
  // Call it once.
  PlanResult Run();

 private:
  struct Worker {
    PlannedEngine engine;
    KvTally kv;
    bool prefills = false;
    int64_t step_begun_ns = 0;
  };
  struct Request {
    PlannedLease lease;
    PlannedSequence prefill, decode;
    RequestTimes times;
    int64_t sent_tokens = 0;                     // end of the tokens whose KV was sent
    int64_t first_sent_ns = 0, all_sent_ns = 0;  // when they began to go, when all so far are there
    std::vector<TokenMessage> messages{};
  };
  void AddWorker(bool prefills, const StepCosts& costs);
  void Handle(const PlannedEvent& event);
  void PlaceWaiting();
  void Start(uint32_t request);
  void Refuse();
  void Wake(uint32_t worker);
  void Admitted(PlannedSequence& sequence);
  void StepDone(uint32_t worker);
  void Computed(uint32_t worker, const StepOutcome& outcome);
  void Send(uint32_t request, int64_t tokens, int64_t first_ns, int64_t last_ns);
  void PromptDone(uint32_t request);
  void Pushed(uint32_t request);
  void Token(uint32_t request);
  void Complete(uint32_t request);
  void MemoryChanged(uint32_t worker);
  RoleUse UseOf(bool prefills, int64_t span_ns) const;

  const FleetOptions options_;
  const StepCosts::Facts& facts_;  // facts about the model
  const PlannedLoad& load_;
  PageHolders holders_;
  PlannedRouter router_;
  std::deque<Worker> workers_;  // those that prefill first
  std::vector<Request> requests_;
  PlannedNetwork network_;
  PlannedEvents events_;
  std::deque<uint32_t> waiting_;  // requests that ask for workers
  int64_t now_ns_ = 0;
  FleetTally tally_;
};

}  // namespace baton
