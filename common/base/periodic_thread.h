// A thread that does one thing again and again.
#pragma once

#include <functional>
#include <thread>

#include "absl/time/time.h"

#include "common/base/timed_wait.h"

namespace baton {

class PeriodicThread {
 public:
  // Calls `work` on a thread of its own, first at once and then `interval` after each end.
  PeriodicThread(absl::Duration interval, std::function<void()> work);
  // Waits for the work that runs; none begins after it.
  ~PeriodicThread();

 private:
  TimedNotification stop_;
  std::thread thread_;
};

}  // namespace baton
