#include "common/base/periodic_thread.h"

#include <utility>

namespace baton {

PeriodicThread::PeriodicThread(absl::Duration interval, std::function<void()> work)
    : thread_([this, interval, work = std::move(work)] {
        while (true) {
          work();
          absl::MutexLock lock(&mutex_);
          mutex_.AwaitWithTimeout(absl::Condition(&stop_), interval);
          if (stop_) return;
        }
      }) {}

PeriodicThread::~PeriodicThread() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

}  // namespace baton
