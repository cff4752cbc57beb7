// The choices of a request that are computed together, one attempt after another: all of them until
// they part, from then on each alone.
//
// Whatever ends an attempt early is answered by the next attempt (resume.h): it begins with the
// prompt and every token accepted so far, so that the client sees one stream. Several choices begin
// anew together as long as none of them has a token. After that each one that has not ended goes on
// alone: it forks.
//
// A hedged attempt (hedge.h) may run beside the running one; whichever is accepted first goes on.
// The Decode call of a broken hand-off stays open until the next attempt has reached that worker,
// which takes over the pages it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "router/request/attempt.h"
#include "router/request/events.h"
#include "router/request/request_state.h"
#include "router/request/resume.h"
#include "router/request/running_attempt.h"

namespace baton {

// Not thread-safe. Borrows the request's state, where its actions, tokens and failures go. Ignores
// the events of attempts that are not its own.
class Choices {
 public:
  // All choices of the request: asks for the workers of the first attempt.
  explicit Choices(RequestState& request);

  void On(const WorkersChosen& event);
  void On(const NoneElsewhere& event);
  void On(const DecodeMessage& event);
  void On(const DecodeEnded& event);
  void On(const PrefillMessage& event);
  void On(const PrefillEnded& event);
  // The time of NextTimer has come. REQUIRES: not done.
  void OnTimer();
  // The client has fallen behind, or has caught up.
  void FlowChanged() { running_.SendFlow(); }
  // Waits no longer for the workers' accounts. REQUIRES: finishing.
  void FinishNow() { running_.FinishNow(); }
  // Ends all calls, in whatever state it is.
  void CancelCalls();

  // The attempt that runs; Over once all choices have ended or have forked.
  const Attempt& attempt() const { return running_.attempt(); }
  bool done() const { return attempt().Is<Attempt::Over>(); }
  bool finishing() const { return attempt().Is<Attempt::Finishing>(); }
  // The attempt or the hedged one beside it has this number, and they go on.
  bool Runs(uint32_t number) const;
  // The attempt's prompt is computed and its prefill worker has room for another; true for one that
  // does not run.
  bool prompt_computed(uint32_t number) const;
  // REQUIRES: not done.
  absl::Time NextTimer() const { return attempt().NextTimer(); }
  // The choices that have forked since the last call.
  std::vector<Choices> TakeForks() { return std::exchange(forks_, {}); }

 private:
  // A call of an earlier attempt that is still open.
  struct OldCall {
    uint32_t attempt = 0;
    uint64_t worker_id = 0;
  };

  Choices(RequestState& request, PastAttempts past, Attempt attempt);

  // The attempt has ended early: begins the next one, forks, or ends the request, unless that has
  // failed.
  void Resume(Breakage breakage);
  void ForkAll(const Breakage& breakage);
  // One choice alone, with the past of all; its attempt is the one that broke.
  Choices Fork(const ChoiceProgress& choice) const;
  // The attempt that follows the running one, with the same choices.
  Attempt Next(uint32_t number, WorkerNeeds needs) const;
  // Leaves the running attempt's calls; its decode call stays open if `keep_decode`.
  void LeaveCalls(bool keep_decode);
  void CancelOldCall();
  void BeginHedge();
  // The hedged attempt's worker has accepted: it is the attempt that runs from here on.
  void TakeHedge(const internal::v1::DecodeAccepted& accepted);

  RequestState& request_;
  PastAttempts past_;
  RunningAttempt running_;
  std::optional<OldCall> old_call_;
  std::vector<Choices> forks_;
};

}  // namespace baton
