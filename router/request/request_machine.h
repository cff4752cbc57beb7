// The life of one request in the router, as a pure state machine: its choices are computed by
// branches (request_branch.h), at first one for all of them, each alone once they have parted and
// their worker was lost; here is what they have in common: the client, the deadline, the end.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/request_branch.h"
#include "router/request/request_events.h"
#include "router/request/request_state.h"

namespace baton {

// Not thread-safe. `table` outlives it. Ends with exactly one Complete or Fail; after that every
// event is ignored and nothing is asked for.
class RequestMachine {
 public:
  RequestMachine(RequestSpec spec, const TokenTable& table, const RequestMachineOptions& options);

  // First of all, once.
  RequestActions Start(absl::Time now);
  // `now` never goes back.
  RequestActions Handle(const RequestEvent& event, absl::Time now);

  bool done() const { return done_; }
  // Tokens accepted for a choice, held-back ones included: what a further attempt continues from.
  const std::vector<internal::v1::OutputToken>& log(uint32_t choice) const;
  size_t accepted_tokens() const;  // of all choices
  // A worker has promised its memory, or did in an earlier attempt: the request is in the system.
  bool admitted() const { return request_->admitted; }
  // The highest attempt so far; several may run at once, of different choices.
  uint32_t attempt() const { return request_->last_attempt; }
  bool running(uint32_t attempt) const;
  // The attempt's prompt is computed, and its prefill worker has room for another; true of one that
  // does not run.
  bool prompt_computed(uint32_t attempt) const;
  bool prompt_computed() const;                         // of all that run
  uint32_t breaks() const { return request_->breaks; }  // attempts that have ended early
  // What ended an attempt last; OK in the first.
  const absl::Status& last_failure() const { return request_->last_broken; }
  const RequestSpec& spec() const { return request_->spec; }
  const v1::Usage& usage() const { return request_->usage; }
  const v1::RequestTimings& timings() const { return request_->timings; }

 private:
  friend struct RequestMachineState;  // of a test that counts transitions
  void On(const Abandoned& event);
  void On(const ClientCancelled& event);
  void On(const ClientBehind& event);
  void On(const ClientCaughtUp& event);
  void On(const TimerFired& event);
  // Whatever is of one attempt finds its branch.
  template <typename Event>
  void On(const Event& event) {
    for (RequestBranch& branch : branches_) branch.On(event);
  }

  void SetPaused(bool paused);
  // Branches that parted, and the end of the request.
  void Settle();
  RequestActions TakeActions();
  bool finishing() const;
  absl::Time NextTimer() const;

  std::unique_ptr<RequestState> request_;
  std::vector<RequestBranch> branches_;  // those that are not done; the machine is, without any
  bool done_ = false;
  absl::Time read_by_ = absl::InfiniteFuture();  // by a client that is behind
  absl::Time timer_ = absl::InfiniteFuture();    // as last asked for
};

}  // namespace baton
