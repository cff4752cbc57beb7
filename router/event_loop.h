// The router's one thread: everything about requests and workers happens on it, so none of that
// needs a lock.
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

// Runs tasks in the order of their posting, on its own thread. What may be posted is bounded by
// whoever posts: each open call has at most one read, one write and one end on the way, and calls
// are bounded by admission and by the workers' promises; the tokenizing pool posts one answer for
// each admitted request.
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
  // Posts and waits until it ran. From any other thread than the loop's.
  void Run(absl::FunctionRef<void()> task);

  // On the loop's thread only. `at` is of SteadyNow().
  Timer RunAt(absl::Time at, Task task);
  void Cancel(const Timer& timer);  // one that ran already is fine

 private:
  void Loop();
  // The tasks posted since the last call, or none when a timer is due first. False: the end.
  bool TakeTasks(std::vector<Task>* tasks);
  void RunDueTimers();

  absl::Mutex mutex_;
  absl::CondVar posted_;
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool sleeping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  // The loop's thread only.
  std::map<Timer, Task> timers_;
  uint64_t next_timer_ = 1;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace baton
