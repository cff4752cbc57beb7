// A thread that does one thing again and again.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

class PeriodicThread {
 public:
  // Calls `work` on a thread of its own, first at once and then `interval` after each end.
  PeriodicThread(absl::Duration interval, std::function<void()> work);
  // Waits for the work that runs; none begins after it.
  ~PeriodicThread();

 private:
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace baton
