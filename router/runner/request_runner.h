// Runs the requests: feeds each one's state machine with what its calls, its client and timers
// report, and does what the machine asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "router/access_log/access_entry.h"
#include "router/calls/client_call.h"
#include "router/calls/event_loop.h"
#include "router/dispatch/admission.h"
#include "router/dispatch/dispatcher.h"
#include "router/fleet/fleet.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/worker_reports.h"
#include "router/metrics/request_observer.h"
#include "router/metrics/router_metrics.h"
#include "router/page/request_history.h"
#include "router/planner/demand.h"
#include "router/request/request_machine.h"
#include "router/runner/request_calls.h"
#include "router/runner/standstills.h"
#include "router/tenants/quotas.h"
#include "router/trace/tracer.h"

namespace baton {

// Everything on the loop's thread. Borrows all of Parts. Destroyed after Close has called back.
class RequestRunner {
 public:
  struct Parts {
    EventLoop& loop;
    Fleet& fleet;
    const FleetView& view;
    Admission& admission;
    RouterMetrics& metrics;
    RequestObserver& observer;
    PlaceFunction place;
    std::function<std::string(size_t)> random_bytes;  // RandomBytes, or what a seed decides
    Demand* demand = nullptr;                         // null: not counted
    RequestHistory* history = nullptr;                // null: no records are kept
    Tracer* tracer = nullptr;                         // null: nothing is traced
  };
  struct Options {
    RequestMachineOptions machine;
    Dispatcher::Options dispatch;
    absl::Duration call_end_grace = absl::Seconds(1);  // for calls to end by themselves
    // Whether clients receive the workers' own names and reasons of failure; else only the log
    // does.
    bool expose_workers = false;
  };
  RequestRunner(const Parts& parts, const Options& options);

  // A client's call that was admitted. No two have one `number`. Its machine starts with Prepared,
  // unless the client leaves before.
  // `access`: its entry of the access log, or null.
  void Arrived(uint64_t number, std::unique_ptr<ClientCall> client, Admission::Ticket ticket,
               Quotas::Use use = {}, std::shared_ptr<AccessEntry> access = nullptr);
  // REQUIRES: after Arrived, exactly once for each.
  void Prepared(uint64_t number, absl::StatusOr<RequestSpec> spec, const TokenTable& table);

  // Workers changed: requests that wait may be placed.
  void PlaceWaiting() { dispatcher_.PlaceWaiting(); }
  // The worker's engine has not advanced since `since` and is about to be lost. Ends the request
  // that causes it, if standstills.h can name one. To be called before WorkerLost.
  void WorkerStoodStill(const Worker& worker, absl::Time since);
  void WorkerLost(uint64_t worker_id, const absl::Status& why);

  // Requests that have not ended towards their clients.
  size_t running() const { return unended_; }
  // Ends all of them with `status`.
  void EndAll(const absl::Status& status);
  // Ends all of them with `status`, and those that still arrive; `closed` is called once all calls
  // are gone, the clients' too.
  void Close(const absl::Status& status, std::function<void()> closed);

 private:
  struct Request {
    uint64_t number = 0;
    std::unique_ptr<ClientCall> client;  // null: the client's call is gone
    Admission::Ticket ticket;
    Quotas::Use use;
    bool prepared = false;
    bool ended = false;  // whether the client receives or has received `end_status`
    absl::Status end_status;
    std::unique_ptr<RequestMachine> machine;
    EventLoop::Timer timer;
    std::unique_ptr<RequestCalls> calls;
    RequestObserver::Seen seen;
    Demand::Place asked;
    std::shared_ptr<RecordedRequest> record;  // set with `machine`; null: none is kept
    std::shared_ptr<AccessEntry> access;      // null: there is none, or the request has ended
  };

  ClientCall::Handlers ClientHandlers(uint64_t number);
  Dispatcher::Handlers DispatchHandlers();
  void GiveWorkers(Request& request, Assignment assignment);
  void TryElsewhere(uint64_t number, const ChooseWorkers& ask);

  void Feed(Request& request, const RequestEvent& event);
  // Feeds the event in a task of its own: never while actions of the same request are being done.
  void Post(uint64_t number, RequestEvent event);
  // The machine goes on with further attempts.
  void AttemptsBroke(Request& request);
  void DoAll(Request& request, RequestActions actions);
  void Do(Request& request, ChooseWorkers&& action);
  void Do(Request& request, Deliver&& action);
  void Do(Request& request, Complete&& action);
  void Do(Request& request, Fail&& action);
  void Do(Request& request, SetTimer&& action);
  template <typename Action>  // about a call to a worker
  void Do(Request& request, Action&& action) {
    request.calls->Do(std::forward<Action>(action));
  }
  // Charges what the request has used, and gives back what it no longer holds: its place in the
  // queue, its tenant's stream, its workers.
  void Settle(Request& request);

  void EndClient(Request& request, const absl::Status& status, const std::string& finish_reason);
  // Records the end of the request in the access log.
  static void NoteEnd(Request& request, const absl::Status& status);
  // Cancels the calls that an ended request has left, if they do not end by themselves.
  void EndCallsLater(Request& request);
  // Breaks an ended client's stream once it has not read for the stall timeout.
  void AbortClientWhenStalled(Request& request);
  void RemoveIfAtRest(Request& request);
  Request* Find(uint64_t number);

  const Parts parts_;
  const Options options_;
  WorkerReports reports_;
  Dispatcher dispatcher_;
  std::map<uint64_t, std::unique_ptr<Request>> requests_;
  Standstills standstills_;
  size_t unended_ = 0;
  std::function<void()> closed_;
};

}  // namespace baton
