// The leases and calls of one request's attempts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/calls/event_loop.h"
#include "router/calls/worker_calls.h"
#include "router/fleet/fleet.h"
#include "router/fleet/lease.h"
#include "router/fleet/worker_reports.h"
#include "router/request/events.h"
#include "router/request/request_machine.h"

namespace baton {

// Executes a machine's actions about workers, and turns what the calls answer into its events. On
// the loop's thread only. Borrows all of Parts. Destroyed when it is empty, or after the loop runs
// no more tasks.
class RequestCalls {
 public:
  struct Parts {
    EventLoop& loop;
    Fleet& fleet;
    WorkerReports& reports;
  };
  struct Handlers {
    std::function<void(const RequestEvent&)> feed;  // the machine is to handle the event now
    std::function<void(RequestEvent)> post;         // it is to handle it in a task of its own
    // A call has ended: its last event. May destroy the RequestCalls.
    std::function<void()> on_ended;
  };
  RequestCalls(const Parts& parts, Handlers handlers)
      : parts_(parts), handlers_(std::move(handlers)) {}
  RequestCalls(const RequestCalls&) = delete;
  RequestCalls& operator=(const RequestCalls&) = delete;

  // The calls from now on belong to that trace; null: to none.
  void SetTrace(std::shared_ptr<const TraceContext> trace) { trace_ = std::move(trace); }
  // The attempt holds its workers until Settle gives them back.
  void Hold(uint32_t attempt, Lease lease) { leases_.emplace(attempt, std::move(lease)); }
  // Null when the attempt holds no workers, or no longer.
  Lease* lease(uint32_t attempt);
  // Gives back what attempts no longer hold; all when `ended`. True when a worker has room for
  // another prompt now.
  bool Settle(const RequestMachine& machine, bool ended);
  // Attempts have broken with `failure`.
  void AttemptsBroke(const RequestMachine& machine, const absl::Status& failure);
  // Whether the worker's engine has computed a sequence of the request since `time` or earlier, as
  // far as the worker has reported.
  bool IsComputedBy(uint64_t worker_id, absl::Time time) const;
  // Returns the number of hand-offs that failed in a row.
  uint32_t failed_hand_offs() const { return failed_hand_offs_; }

  // Each opens a call. REQUIRES: the attempt holds a lease of that worker.
  void Do(OpenDecode&& action);
  void Do(StartPrefill&& action);
  // Each does nothing when the call has ended.
  void Do(SendToDecode&& action);
  void Do(CloseDecode&& action);
  void Do(CancelDecode&& action);
  void Do(CancelPrefill&& action);

  // Cancels the calls to that worker, and reports their end to the machine at once.
  void WorkerLost(uint64_t worker_id, const absl::Status& why);
  void CancelAll();
  bool empty() const { return calls_.empty(); }

 private:
  // An open call to a worker, until its end was reported. One of the two pointers is set.
  struct Call {
    uint32_t attempt = 0;
    WorkerReports::Call report;
    bool is_believed = true;  // false: its end was reported; later messages are ignored
    // When the worker reported that its engine computes the sequence. InfiniteFuture before that,
    // and after the first token of a prefill.
    absl::Time computed_since = absl::InfiniteFuture();
    std::unique_ptr<DecodeClientCall> decode;
    std::unique_ptr<StreamingCall<internal::v1::PrefillResponse>> prefill;

    void Cancel() { decode != nullptr ? decode->Cancel() : prefill->Cancel(); }
  };

  // Null after saying that the worker is gone, as an event of type Ended.
  template <typename Ended>
  Worker* FindWorker(uint64_t worker_id, uint32_t attempt);
  Call& AddCall(uint32_t attempt, uint64_t worker_id);
  // Returns handlers that feed the machine: messages as events of type Message, the end as an event
  // of type Ended.
  template <typename Response, typename Message, typename Ended>
  CallHandlers<Response> HandlersOf(Call& call);
  // The worker broke the protocol, as `what` says: the call is over for the machine at once, with an
  // event of type Ended, and is cancelled.
  template <typename Ended>
  void Disbelieve(Call& call, const std::string& what);
  DecodeClientCall* DecodeOf(uint32_t attempt) const;
  // Cancels the call; `why` is the worker's fault, if it is not OK.
  void GiveUp(Call& call, const absl::Status& why);
  void CallEnded(const Call& call, const absl::Status& status, const RequestEvent& event);

  const Parts parts_;
  const Handlers handlers_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::map<uint32_t, Lease> leases_;  // [attempt]
  uint32_t failed_hand_offs_ = 0;
  std::shared_ptr<const TraceContext> trace_;
};

}  // namespace baton
