// Waits that end after a time at the latest, by the monotonic clock: setting the wall clock makes
// none of them longer or shorter. Abseil's own timed waits follow the wall clock on Debian 12.
// tests/layout_test.py rejects those, and the standard library's, in all other files of the product.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace baton {

// A longer wait has no limit: the arithmetic of the clock could overflow.
inline constexpr absl::Duration kLongestTimedWait = absl::Hours(24 * 365);

// Waits until `ready()` is true, or for `timeout`, and returns ready(). `ready` is called with the
// lock held. REQUIRES: `lock` is locked, and each change of what `ready` reads notifies `changed`.
template <typename ConditionVariable, typename Lock, typename Ready>
bool WaitFor(ConditionVariable& changed, Lock& lock, absl::Duration timeout, Ready ready) {
  if (timeout > kLongestTimedWait) {
    changed.wait(lock, ready);
    return true;
  }
  return changed.wait_for(lock, absl::ToChronoNanoseconds(timeout), ready);
}

// A condition variable beside an absl::Mutex. Thread-safe. REQUIRES: one mutex at a time.
class TimedCondVar {
 public:
  // Waits until the next notification, or for `timeout`. May also return for no reason. REQUIRES:
  // the caller has locked `mutex`, which is unlocked meanwhile.
  void WaitFor(absl::Mutex& mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Waits until `ready()` is true, or for `timeout`, and returns ready(). REQUIRES: as above, and
  // each change of what `ready` reads notifies this object.
  template <typename Ready>
  bool WaitFor(absl::Mutex& mutex, absl::Duration timeout, Ready ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Lockable lock{mutex};
    return baton::WaitFor(changed_, lock, timeout, ready);
  }

  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  // Gives absl::Mutex the names of the standard library.
  struct Lockable {
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Lock(); }      // NOLINT: the standard's name
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Unlock(); }  // NOLINT: the standard's name
    absl::Mutex& mutex;
  };

  std::condition_variable_any changed_;
};

// An event that happens once. Thread-safe. REQUIRES: it lives until Notify has returned.
class TimedNotification {
 public:
  // REQUIRES: called once.
  void Notify();
  bool HasBeenNotified() const;
  // Waits for Notify, for at most `timeout`. Returns whether it was called.
  bool WaitFor(absl::Duration timeout) const;

 private:
  mutable std::mutex mutex_;  // guards notified_
  mutable std::condition_variable changed_;
  bool notified_ = false;
};

}  // namespace baton
