// Runs all work on the router's requests and workers, one task at a time, so that it needs no lock.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace baton {

// Runs tasks in the order of their posting, never two at once. "The loop's thread" is the thread
// that runs them at the moment. The number of posted tasks is bounded by their sources: each open
// call has at most one read, one write and one end under way, and calls are bounded by admission
// and by the workers' reservations; the tokenizing pool posts one answer for each admitted request.
// Two implementations: ThreadLoop, and the simulation's in virtual time.
class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;
  // Names a timer; a default one names none.
  struct Timer {
    absl::Time at;
    uint64_t number = 0;
    friend bool operator<(const Timer& a, const Timer& b) {
      return a.at != b.at ? a.at < b.at : a.number < b.number;
    }
  };

  EventLoop() = default;
  virtual ~EventLoop() = default;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // May be called on any thread.
  virtual void Post(Task task) = 0;
  // As Post, from a thread that holds no lock: where no task runs just now it runs this one, and
  // some of what others post meanwhile.
  virtual void PostOrRun(Task task) = 0;

  // The time of the loop. Only differences of such times mean something. May be called on any
  // thread.
  virtual absl::Time Now() const = 0;
  // On the loop's thread only. `at` is a time as Now() gives it.
  virtual Timer RunAt(absl::Time at, Task task) = 0;
  // On the loop's thread only. Does nothing for a timer that ran already.
  virtual void Cancel(const Timer& timer) = 0;
};

}  // namespace baton
