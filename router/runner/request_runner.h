// Runs the requests: feeds each one's state machine with what calls and timers report and does what
// it asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "router/calls/client_call.h"
#include "router/calls/event_loop.h"
#include "router/calls/worker_calls.h"
#include "router/dispatch/admission.h"
#include "router/dispatch/fair_queue.h"
#include "router/fleet/worker_registry.h"
#include "router/metrics/router_metrics.h"
#include "router/placement/placement.h"
#include "router/request/request_machine.h"

namespace baton {

// Everything on the loop's thread. Borrows all of Parts. Destroyed after Close has called back.
class RequestRunner {
 public:
  struct Parts {
    EventLoop& loop;
    WorkerRegistry& registry;
    RouterMetrics& metrics;
    const FleetView& fleet;
    Admission& admission;
  };
  struct Options {
    RequestMachineOptions machine;
    PlacementOptions placement;
    absl::Duration no_worker_grace = absl::Seconds(2);  // none is ready: one may be about to be
    absl::Duration call_end_grace = absl::Seconds(1);   // for calls to end by themselves
  };
  RequestRunner(const Parts& parts, const Options& options);

  // A client's call that was admitted. Its machine starts with Prepared, unless the client leaves
  // before. Returns the request's number.
  void Arrived(uint64_t number, std::unique_ptr<ClientCall> client, Admission::Ticket ticket);
  // REQUIRES: after Arrived, exactly once for each.
  void Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec, const TokenTable& table);

  // Workers changed: what waits may be placed.
  void PlaceWaiting();
  void WorkerLost(uint64_t worker_id, const absl::Status& why);

  // Requests that have not ended towards their clients.
  size_t running() const { return unended_; }
  // Ends all of them with `status`.
  void EndAll(const absl::Status& status);
  // As EndAll; `closed` is called once all calls are gone, the clients' too.
  void Close(const absl::Status& status, std::function<void()> closed);

 private:
  // A call to a worker, open until its end was heard, and what it holds there.
  struct WorkerLeg {
    uint32_t attempt = 0;
    uint64_t worker_id = 0;
    uint64_t begun = 0;                        // from the worker's breaker
    bool served = false;                       // it has done something useful
    uint32_t cached_tokens = 0;                // of the prompt, as it said
    std::unique_ptr<DecodeClientCall> decode;  // one of the two
    std::unique_ptr<StreamingCall<internal::v1::PrefillResponse>> prefill;
  };
  struct Request {
    uint64_t number = 0;
    std::unique_ptr<ClientCall> client;  // null: the client's call is gone
    Admission::Ticket ticket;
    bool prepared = false;
    bool ended = false;  // the client is told `end_status`, or was
    absl::Status end_status;
    std::unique_ptr<RequestMachine> machine;
    EventLoop::Timer timer;
    std::vector<std::unique_ptr<WorkerLeg>> legs;
    std::map<uint32_t, WorkerShare> shares;  // by attempt
    uint32_t failed_hand_offs = 0;           // in a row
    size_t tokens_seen = 0;
    absl::Time last_token = absl::InfinitePast();
    // Attempts that wait for workers, the oldest first; the request waits in line while there are
    // some, for the first of them.
    std::deque<ChooseWorkers> asks;
    absl::Time none_ready_since = absl::InfiniteFuture();  // InfiniteFuture: some worker is
  };

  void Feed(Request& request, const RequestEvent& event);
  // The machine goes on with further attempts.
  void AttemptsBroke(Request& request);
  void DoAll(Request& request, RequestActions actions);
  void Do(Request& request, ChooseWorkers&& action);
  void Do(Request& request, OpenDecode&& action);
  void Do(Request& request, StartPrefill&& action);
  void Do(Request& request, SendToDecode&& action);
  void Do(Request& request, CloseDecode&& action);
  void Do(Request& request, CancelDecode&& action);
  void Do(Request& request, CancelPrefill&& action);
  void Do(Request& request, Deliver&& action);
  void Do(Request& request, Complete&& action);
  void Do(Request& request, Fail&& action);
  void Do(Request& request, SetTimer&& action);

  void SchedulePlacing();
  void Enqueue(Request& request);
  // Ends those that wait and will get no worker in time, now and for as long as somebody waits.
  void SweepWaiting();
  void PlaceElsewhere(uint64_t number, ChooseWorkers ask);
  using Candidates = ReadyWorkers::Candidates;
  Candidates FindCandidates(const Request& request, WorkerNeeds& needs);
  void GiveWorkers(Request& request, const ChooseWorkers& ask, const Candidates& candidates,
                   const Placement& placement);
  // What messages and ends of calls say about the workers, for placement.
  void Observe(const Request& request, WorkerLeg& leg,
               const internal::v1::PrefillResponse& message);
  void Observe(const Request& request, WorkerLeg& leg, const internal::v1::DecodeResponse& message);
  void Observe(const WorkerLeg& leg, const RequestEvent& end);
  void ObserveBreak(Request& request, const absl::Status& failure);
  absl::Status WhyNoWorker() const;
  WorkerLeg& AddLeg(Request& request, uint32_t attempt, uint64_t worker_id);
  // Null when it has ended.
  DecodeClientCall* DecodeOf(Request& request, uint32_t attempt);
  void LegEnded(uint64_t number, const WorkerLeg* leg, const RequestEvent& event);
  // Feeds the event later, in a turn of its own: never while actions of the same request are being
  // done.
  void Post(uint64_t number, RequestEvent event);
  // Ends what is left of an ended request's calls, if it does not end by itself.
  void EndLegsLater(Request& request);
  // Breaks an ended client's stream once it has not read for the stall timeout.
  void AbortClientWhenStalled(Request& request);
  // Gives back what the request no longer holds: its place in the queue, in a worker's queue, on
  // its workers.
  void Settle(Request& request);
  void GiveBackPromptPlace(WorkerShare& share);
  void EndClient(Request& request, const absl::Status& status, const std::string& finish_reason);
  void RemoveIfAtRest(Request& request);
  Request* Find(uint64_t number);

  const Parts parts_;
  const Options options_;
  std::map<uint64_t, std::unique_ptr<Request>> requests_;
  FairQueue waiting_;                // for workers
  std::vector<uint64_t> no_worker_;  // as waiting_, aside: no worker that is ready could serve them
  uint64_t turn_ = 0;
  size_t unended_ = 0;
  bool placing_ = false;   // PlaceWaiting is posted
  bool sweeping_ = false;  // SweepWaiting has a timer
  std::function<void()> closed_;
};

}  // namespace baton
