#include "common/base/timed_wait.h"

#include "common/base/check.h"

namespace baton {

void TimedCondVar::WaitFor(absl::Mutex& mutex, absl::Duration timeout) {
  Lockable lock{mutex};
  if (timeout > kLongestTimedWait) {
    changed_.wait(lock);
  } else {
    changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout));
  }
}

void TimedNotification::Notify() {
  const std::lock_guard lock(mutex_);
  BATON_CHECK(!notified_, "an event happens once");
  notified_ = true;
  changed_.notify_all();
}

bool TimedNotification::HasBeenNotified() const {
  const std::lock_guard lock(mutex_);
  return notified_;
}

bool TimedNotification::WaitFor(absl::Duration timeout) const {
  std::unique_lock lock(mutex_);
  return baton::WaitFor(changed_, lock, timeout, [this] { return notified_; });
}

}  // namespace baton
