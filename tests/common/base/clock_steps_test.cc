// The wall clock is set while something waits: NTP does so, and a machine that is resumed.
#include "tests/support/clock_steps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

#include "common/base/bounded_queue.h"
#include "common/base/clock.h"
#include "common/base/periodic_thread.h"
#include "common/base/timed_wait.h"

namespace baton {
namespace {

constexpr absl::Duration kWait = absl::Milliseconds(100);
constexpr absl::Duration kPatience = absl::Seconds(5);

// The parameter: by how many hours the clock is set.
class ClockStepsTest : public ::testing::TestWithParam<int> {
 protected:
  // How long `wait` takes while the clock is set.
  static absl::Duration TimeOf(const std::function<void()>& wait) {
    absl::Duration took;
    std::atomic<bool> begun = false, ended = false;
    std::thread waiter([&] {
      const absl::Time begin = SteadyNow();
      begun = true;
      wait();
      took = SteadyNow() - begin;
      ended = true;
    });
    while (!begun) std::this_thread::yield();
    absl::SleepFor(kWait / 5);  // so that the wait has begun
    const int64_t step = absl::ToInt64Nanoseconds(absl::Hours(GetParam()));
    const absl::Time before = absl::Now();
    BatonStepWallClock(step);
    EXPECT_GT((absl::Now() - before) * GetParam(), absl::Minutes(59)) << "the clock was set";
    for (const absl::Time end = SteadyNow() + kPatience; !ended && SteadyNow() < end;) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    BatonStepWallClock(-step);  // so that a wait which follows the wall clock ends too
    waiter.join();
    return took;
  }
  static void ExpectUnmoved(const char* what, const std::function<void()>& wait) {
    const absl::Duration took = TimeOf(wait);
    EXPECT_GE(took, kWait) << what;
    EXPECT_LT(took, kPatience) << what;
  }
};

TEST_P(ClockStepsTest, OurWaitsAreNeitherLongerNorShorter) {
  ExpectUnmoved("TimedCondVar", [] {
    absl::Mutex mutex;
    TimedCondVar changed;
    absl::MutexLock lock(&mutex);
    changed.WaitFor(mutex, kWait, [] { return false; });
  });
  ExpectUnmoved("TimedNotification", [] { TimedNotification().WaitFor(kWait); });
  ExpectUnmoved("WaitFor", [] {
    std::mutex mutex;
    std::condition_variable changed;
    std::unique_lock lock(mutex);
    WaitFor(changed, lock, kWait, [] { return false; });
  });
  ExpectUnmoved("BoundedQueue", [] { BoundedQueue<int>(1).Pop(kWait); });
  ExpectUnmoved("PeriodicThread", [] {
    std::atomic<int> times = 0;
    absl::Notification second;
    const PeriodicThread thread(kWait, [&] {
      if (++times == 2) second.Notify();
    });
    second.WaitForNotification();
  });
}

TEST_P(ClockStepsTest, WaitsOfLibrariesAreNeitherLongerNorShorter) {
  ExpectUnmoved("Mutex", [] {
    absl::Mutex mutex;
    absl::MutexLock lock(&mutex);
    bool never = false;
    mutex.AwaitWithTimeout(absl::Condition(&never), kWait);
  });
  ExpectUnmoved("CondVar", [] {
    absl::Mutex mutex;
    absl::CondVar changed;
    absl::MutexLock lock(&mutex);
    changed.WaitWithTimeout(&mutex, kWait);
  });
  ExpectUnmoved("Notification", [] { absl::Notification().WaitForNotificationWithTimeout(kWait); });
  ExpectUnmoved("SleepFor", [] { absl::SleepFor(kWait); });
}

INSTANTIATE_TEST_SUITE_P(BackAndForth, ClockStepsTest, ::testing::Values(-1, 1));

}  // namespace
}  // namespace baton
