// Where everything about the router's requests and workers happens, one task at a time, so that
// none of that needs a lock.
#pragma once

#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

// Runs tasks in the order of their posting, never two at once: on its own thread, or on one that
// posted with PostOrRun, which saves the switch between the two ("the loop's thread" is whichever
// runs). What may be posted is bounded by whoever posts: each open call has at most one read, one
// write and one end on the way, and calls are bounded by admission and by the workers' promises;
// the tokenizing pool posts one answer for each admitted request.
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

  EventLoop();
  // Runs what was posted, then ends. Timers that are not due are dropped.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // From any thread.
  void Post(Task task);
  // As Post, from a thread that holds no lock: where no task runs just now it runs this one, and
  // some of what others post meanwhile.
  void PostOrRun(Task task);
  // Posts and waits until it ran. From any other thread than the loop's.
  void Run(absl::FunctionRef<void()> task);

  // On the loop's thread only. `at` is of SteadyNow().
  Timer RunAt(absl::Time at, Task task);
  void Cancel(const Timer& timer);  // one that ran already is fine

 private:
  void Loop();
  // Runs tasks and due timers until there are none, or about so many are done and the own thread
  // goes on. REQUIRES: running_ was set by this thread.
  void RunTasks(size_t max_tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunDueTimers();
  absl::Time FirstTimer() const;

  absl::Mutex mutex_;
  absl::CondVar changed_;  // the loop's own thread waits for it
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // some thread runs tasks
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Until when the own thread sleeps where nobody wakes it; InfinitePast while it does not.
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  // Of the thread that runs tasks, else of whoever holds the lock.
  std::map<Timer, Task> timers_;
  uint64_t next_timer_ = 1;
  std::vector<Task> batch_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace baton
