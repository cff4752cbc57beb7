#include "common/base/periodic_thread.h"

#include <utility>

namespace baton {

PeriodicThread::PeriodicThread(absl::Duration interval, std::function<void()> work)
    : thread_([this, interval, work = std::move(work)] {
        do {
          work();
        } while (!stop_.WaitFor(interval));
      }) {}

PeriodicThread::~PeriodicThread() {
  stop_.Notify();
  thread_.join();
}

}  // namespace baton
