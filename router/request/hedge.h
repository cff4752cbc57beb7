// The hedged attempt beside a running one: a second attempt at the same choices, on another decode
// worker.
//
// A decode worker may not accept, or may have preempted the sequence for long, while another one
// has room. The running attempt keeps its call, and with it its place in its worker's line, until
// the hedged attempt is accepted. A worker that does not accept at once is left again, and the next
// hedged attempt comes after twice as long.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

#include "router/request/events.h"
#include "router/request/request_state.h"

namespace baton {

struct HedgedAttempt {
  uint32_t number = 0;
  std::optional<WorkersChosen> workers{};  // none: they are asked for
  absl::Time until{};                      // when it is given up
};

// A value of one running attempt, not thread-safe. Its actions go to the request's state.
class Hedge {
 public:
  // A hedged attempt begins after `wait`.
  void Plan(absl::Duration wait, absl::Time now);
  // Asks for another decode worker with `needs`, those of the attempt `beside`, which runs on
  // `decode_id`.
  void Begin(RequestState& request, WorkerNeeds needs, uint32_t beside, uint64_t decode_id);
  // Its workers; the caller opens the call. REQUIRES: Asks(workers.attempt).
  void Choose(const RequestState& request, const WorkersChosen& workers);
  // Ends it, and plans the next one after twice as long.
  void GiveUp(RequestState& request);
  // Its call has ended by itself: gives it up.
  void CallEnded(RequestState& request);
  // Ends it, and plans no other.
  void Cancel(RequestState& request);
  // Lets go of the attempt: it runs from here on. REQUIRES: one has its workers.
  HedgedAttempt Take();

  bool running() const { return attempt_.has_value(); }
  bool Is(uint32_t number) const { return running() && attempt_->number == number; }
  bool Asks(uint32_t number) const { return Is(number) && !attempt_->workers.has_value(); }
  // When a hedged attempt is given up, or the next one begins.
  absl::Time NextTimer() const { return running() ? attempt_->until : begin_at_; }

 private:
  std::optional<HedgedAttempt> attempt_;
  absl::Duration wait_;  // before the hedged attempt that was planned last
  absl::Time begin_at_ = absl::InfiniteFuture();
};

}  // namespace baton
