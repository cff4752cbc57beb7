#include "router/front/preparing_pool.h"

#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(PreparingPool, ItsEndStopsTheJobThatRunsAndRunsThoseThatWait) {
  bool waiting_ran = false;
  auto pool = std::make_unique<PreparingPool>(1, 8);
  absl::Notification running;
  ASSERT_TRUE(pool->TryRun([&running, &stopping = pool->stopping()] {
    running.Notify();
    while (!stopping.load()) std::this_thread::yield();
  }));
  ASSERT_TRUE(pool->TryRun([&] { waiting_ran = true; }));
  running.WaitForNotification();
  pool.reset();
  EXPECT_TRUE(waiting_ran);
}

TEST(PreparingPool, RefusesAJobWhenSoManyWait) {
  PreparingPool pool(1, 1);
  absl::Notification running;
  ASSERT_TRUE(pool.TryRun([&] {
    running.Notify();
    while (!pool.stopping().load()) std::this_thread::yield();
  }));
  running.WaitForNotification();
  EXPECT_TRUE(pool.TryRun([] {}));
  EXPECT_FALSE(pool.TryRun([] {}));
  pool.Stop();
}

}  // namespace
}  // namespace baton
