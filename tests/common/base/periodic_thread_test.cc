#include "common/base/periodic_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "absl/synchronization/notification.h"

namespace baton {
namespace {

TEST(PeriodicThread, WorksAtOnceAndAgainUntilItIsDestroyed) {
  std::atomic<int> times = 0;
  absl::Notification third;
  std::optional<PeriodicThread> thread(std::in_place, absl::Milliseconds(1), [&] {
    if (++times == 3) third.Notify();
  });
  third.WaitForNotification();
  thread.reset();
  const int last = times;
  EXPECT_GE(last, 3);
  EXPECT_EQ(times, last);
}

TEST(PeriodicThread, EndsWithoutWaitingForItsInterval) {
  absl::Notification once;
  const PeriodicThread thread(absl::InfiniteDuration(), [&] { once.Notify(); });
  once.WaitForNotification();
}

}  // namespace
}  // namespace baton
