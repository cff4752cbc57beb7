// The life of one request in the router, as a pure state machine. Its choices are computed together
// at first, and each alone once they have parted and their worker was lost (choices.h). The machine
// has what all of them share: the client, the deadline, the end.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/request/choices.h"
#include "router/request/events.h"
#include "router/request/request_state.h"

namespace baton {

// Not thread-safe. `table` outlives it. Ends with exactly one Complete or Fail; after that every
// event is ignored and nothing is asked for.
class RequestMachine {
 public:
  RequestMachine(RequestSpec spec, const TokenTable& table, const RequestMachineOptions& options);

  // Asks for the first workers. REQUIRES: called once, before anything else.
  RequestActions Start(absl::Time now);
  // REQUIRES: `now` never goes back.
  RequestActions Handle(const RequestEvent& event, absl::Time now);

  bool done() const { return done_; }
  // Tokens accepted for a choice, held-back ones included: what a further attempt continues from.
  const std::vector<internal::v1::OutputToken>& log(uint32_t choice) const;
  size_t accepted_tokens() const;  // the sum over all choices
  // Every choice has its last token: only the workers' accounts are waited for, or nothing is.
  bool finishing() const;
  // A worker has reserved its memory, or did in an earlier attempt: the request is in the system.
  bool admitted() const { return request_->admitted; }
  // The highest attempt so far; several may run at once, for different choices.
  uint32_t attempt() const { return request_->last_attempt; }
  bool running(uint32_t attempt) const;
  // The attempt's prompt is computed, and its prefill worker has room for another; true for one
  // that does not run.
  bool prompt_computed(uint32_t attempt) const;
  bool prompt_computed() const;                         // for all attempts that run
  uint32_t breaks() const { return request_->breaks; }  // attempts that have ended early
  // The failure that ended the previous attempt; OK in the first attempt.
  const absl::Status& last_failure() const { return request_->last_broken; }
  // The failure that made the request wait for other workers; OK in the first attempt.
  const absl::Status& why_it_waits() const { return request_->why_it_waits; }
  const RequestSpec& spec() const { return request_->spec; }
  const v1::Usage& usage() const { return request_->usage; }
  const v1::RequestTimings& timings() const { return request_->timings; }

 private:
  friend struct RequestMachineState;  // a test counts transitions with it
  void On(const Abandoned& event);
  void On(const ClientCancelled& event);
  void On(const ClientBehind& event);
  void On(const ClientCaughtUp& event);
  void On(const TimerFired& event);
  void On(const DecodeEnded& event);
  template <typename Event>
  void On(const Event& event) {
    ToChoices(event);
  }
  // An event of one attempt: the choices to which the attempt does not belong ignore it.
  template <typename Event>
  void ToChoices(const Event& event) {
    for (Choices& choices : choices_) choices.On(event);
  }

  void SetPaused(bool paused);
  // Takes over the choices that have forked, and ends the request if it is over.
  void Settle();
  RequestActions TakeActions();
  // By when a token or a step of the prompt has to come.
  absl::Time progress_by() const {
    return request_->gained_at + request_->options.progress_timeout;
  }
  absl::Time NextTimer() const;

  std::unique_ptr<RequestState> request_;
  std::vector<Choices> choices_;  // the first are all choices together; those that forked follow
  bool done_ = false;
  absl::Time read_by_ = absl::InfiniteFuture();  // when a client that is behind must have read
  absl::Time timer_ = absl::InfiniteFuture();    // as last asked for
};

}  // namespace baton
