// The event loop of a process: a thread of its own, and those that help it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/timed_wait.h"
#include "router/calls/event_loop.h"

namespace baton {

// Tasks run on the loop's own thread, or on one that posted with PostOrRun, which saves the switch
// between the two. Its time is SteadyNow().
class ThreadLoop final : public EventLoop {
 public:
  ThreadLoop();
  // Runs what was posted, then ends. Timers that are not due are dropped.
  ~ThreadLoop() override;

  void Post(Task task) override;
  void PostOrRun(Task task) override;
  // Posts and waits until the task ran. REQUIRES: another thread than the loop's.
  void Run(absl::FunctionRef<void()> task);

  absl::Time Now() const override { return SteadyNow(); }
  Timer RunAt(absl::Time at, Task task) override;
  void Cancel(const Timer& timer) override;

 private:
  void Loop();
  // Runs tasks and due timers until there are none, or about `max_tasks` are done and the own
  // thread goes on. REQUIRES: running_ was set by this thread.
  void RunTasks(size_t max_tasks) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunDueTimers();
  absl::Time FirstTimer() const;

  absl::Mutex mutex_;
  TimedCondVar changed_;  // the loop's own thread waits for it
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;  // some thread runs tasks
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // The time until which the own thread sleeps unless it is woken; InfinitePast while it does not.
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();

  // The next three belong to the thread that runs tasks, else to the holder of the lock.
  std::map<Timer, Task> timers_;
  uint64_t next_timer_ = 1;
  std::vector<Task> batch_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace baton
