#include "common/base/timed_wait.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/mutex.h"

#include "common/base/clock.h"

namespace baton {
namespace {

constexpr absl::Duration kShortTime = absl::Milliseconds(20);

TEST(TimedCondVar, WaitsForAtMostTheTime) {
  absl::Mutex mutex;
  TimedCondVar changed;
  absl::MutexLock lock(&mutex);
  const absl::Time begin = SteadyNow();
  EXPECT_FALSE(changed.WaitFor(mutex, kShortTime, [] { return false; }));
  EXPECT_GE(SteadyNow() - begin, kShortTime);
  EXPECT_TRUE(changed.WaitFor(mutex, kShortTime, [] { return true; })) << "it need not wait";
  EXPECT_FALSE(changed.WaitFor(mutex, -kShortTime, [] { return false; }));
}

TEST(TimedCondVar, ANotificationEndsTheWaitHoweverLongItMayBe) {
  for (const absl::Duration timeout : {absl::Hours(1), absl::InfiniteDuration()}) {
    absl::Mutex mutex;
    TimedCondVar changed;
    bool waits = false, ready = false;
    std::thread waiter([&] {
      absl::MutexLock lock(&mutex);
      waits = true;
      EXPECT_TRUE(changed.WaitFor(mutex, timeout, [&] { return ready; }));
      waits = false;
      while (ready) changed.WaitFor(mutex, timeout);
    });
    for (bool begun = false; !begun;) {
      absl::MutexLock lock(&mutex);
      begun = waits;
    }
    {
      absl::MutexLock lock(&mutex);
      ready = true;
      changed.NotifyOne();
    }
    for (bool ended = false; !ended;) {
      absl::MutexLock lock(&mutex);
      ended = !waits;
    }
    {
      absl::MutexLock lock(&mutex);
      ready = false;
      changed.NotifyAll();
    }
    waiter.join();
  }
}

TEST(TimedNotification, IsSeenByAllWhoWaitAndByThoseWhoComeLater) {
  TimedNotification event;
  EXPECT_FALSE(event.HasBeenNotified());
  EXPECT_FALSE(event.WaitFor(kShortTime));
  std::thread first([&] { EXPECT_TRUE(event.WaitFor(absl::InfiniteDuration())); });
  std::thread second([&] { EXPECT_TRUE(event.WaitFor(absl::Hours(1))); });
  event.Notify();
  first.join();
  second.join();
  EXPECT_TRUE(event.HasBeenNotified());
  EXPECT_TRUE(event.WaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace baton
