#include "router/front/preparing_pool.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using testing::ElementsAre;
using Job = PreparingPool::Job;

// Fills a pool's threads with jobs of a tenant until they are let go.
class Held {
 public:
  Held(PreparingPool& pool, const std::string& tenant, int jobs) {
    std::vector<absl::Notification> running(static_cast<size_t>(jobs));
    for (absl::Notification& begun : running) {
      EXPECT_TRUE(
          pool.TryRun({.tenant = tenant, .run = [go_on = go_on_, &begun](const absl::Status&) {
                         begun.Notify();
                         go_on->WaitForNotification();
                       }}));
    }
    for (absl::Notification& begun : running) begun.WaitForNotification();
  }
  ~Held() { LetGo(); }
  void LetGo() {
    if (!go_on_->HasBeenNotified()) go_on_->Notify();
  }

 private:
  // The jobs' threads share it.
  const std::shared_ptr<absl::Notification> go_on_ = std::make_shared<absl::Notification>();
};

// What ran, in order.
class Order {
 public:
  Job Of(const std::string& tenant, const std::string& what, uint64_t cost = 1) {
    return {.tenant = tenant, .cost = cost, .run = [this, what](const absl::Status&) {
              const std::lock_guard lock(mutex_);
              ran_.push_back(what);
            }};
  }
  std::vector<std::string> ran() const {
    const std::lock_guard lock(mutex_);
    return ran_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> ran_;
};

TEST(PreparingPool, ItsEndStopsTheJobThatRunsAndTellsThoseThatWait) {
  absl::Status waiting;
  auto pool = std::make_unique<PreparingPool>(1, 8);
  absl::Notification running;
  ASSERT_TRUE(
      pool->TryRun({.run = [&running, &stopping = pool->stopping()](const absl::Status& may_run) {
        EXPECT_TRUE(may_run.ok());
        running.Notify();
        while (!stopping.load()) std::this_thread::yield();
      }}));
  ASSERT_TRUE(pool->TryRun({.run = [&](const absl::Status& may_run) { waiting = may_run; }}));
  running.WaitForNotification();
  pool.reset();
  EXPECT_TRUE(absl::IsUnavailable(waiting)) << "nobody wants its work any more: " << waiting;
}

TEST(PreparingPool, RefusesAJobWhenSoManyWait) {
  PreparingPool pool(1, 1);
  Held held(pool, "", 1);
  EXPECT_TRUE(pool.TryRun({.run = [](const absl::Status&) {}}));
  EXPECT_FALSE(pool.TryRun({.run = [](const absl::Status&) {}}));
}

TEST(PreparingPool, AJobWhoseClientHasLeftIsNotDone) {
  absl::Status left, stayed;
  std::atomic<bool> gone = false;
  {
    PreparingPool pool(1, 8);
    absl::Notification done;
    Held held(pool, "", 1);
    ASSERT_TRUE(pool.TryRun({.cancelled = [&] { return gone.load(); },
                             .run = [&](const absl::Status& may_run) { left = may_run; }}));
    ASSERT_TRUE(pool.TryRun({.cancelled = [&] { return !gone.load(); },
                             .run =
                                 [&](const absl::Status& may_run) {
                                   stayed = may_run;
                                   done.Notify();
                                 }}));
    gone = true;
    held.LetGo();
    done.WaitForNotification();
  }
  EXPECT_TRUE(absl::IsCancelled(left)) << left;
  EXPECT_TRUE(stayed.ok()) << stayed;
}

TEST(PreparingPool, ATenantThatComesLateDoesNotWaitForAllOfAnothers) {
  Order order;
  PreparingPool pool(1, 100);
  absl::Notification done;
  Held held(pool, "greedy", 1);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool.TryRun(order.Of("greedy", absl::StrCat("greedy ", i), /*cost=*/1000)));
  }
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool.TryRun(order.Of("modest", absl::StrCat("modest ", i), /*cost=*/10)));
  }
  ASSERT_TRUE(pool.TryRun({.tenant = "zz", .cost = 100'000, .run = [](const absl::Status&) {}}));
  ASSERT_TRUE(pool.TryRun({.tenant = "zz", .run = [&](const absl::Status&) { done.Notify(); }}));
  held.LetGo();
  done.WaitForNotification();
  EXPECT_THAT(order.ran(), ElementsAre("greedy 0", "modest 0", "modest 1", "modest 2", "greedy 1",
                                       "greedy 2", "greedy 3", "greedy 4"));
}

TEST(PreparingPool, ANamedTenantLeavesAThreadToOthersAndTheAnonymousOneHasAll) {
  PreparingPool pool(3, 100);
  {
    absl::Notification third, other;
    Held held(pool, "greedy", 2);
    ASSERT_TRUE(
        pool.TryRun({.tenant = "greedy", .run = [&](const absl::Status&) { third.Notify(); }}));
    ASSERT_TRUE(
        pool.TryRun({.tenant = "modest", .run = [&](const absl::Status&) { other.Notify(); }}));
    other.WaitForNotification();
    EXPECT_FALSE(third.HasBeenNotified());
    held.LetGo();
    third.WaitForNotification();
  }
  const Held all(pool, "", 3);
}

TEST(PreparingPool, ATenantHasNoMoreOfTheQueueThanLeavesPlacesToOthers) {
  PreparingPool pool(1, 90);
  Held held(pool, "greedy", 1);
  int taken = 0;
  while (pool.TryRun({.tenant = "greedy", .run = [](const absl::Status&) {}})) ++taken;
  EXPECT_EQ(taken, 80);
  EXPECT_TRUE(pool.TryRun({.tenant = "modest", .run = [](const absl::Status&) {}}));
  for (; taken < 89; ++taken) {
    EXPECT_TRUE(pool.TryRun({.run = [](const absl::Status&) {}})) << "nobody else is there";
  }
  EXPECT_FALSE(pool.TryRun({.run = [](const absl::Status&) {}}));
}

TEST(PreparingPool, AllThatIsTakenRunsOnceWhateverTheThreadsAndTenants) {
  for (const int threads : {1, 2, 4}) {
    std::atomic<int> ran = 0;
    int taken = 0;
    {
      PreparingPool pool(threads, 64);
      for (int i = 0; i < 2000; ++i) {
        taken += pool.TryRun({.tenant = i % 5 == 0 ? "" : absl::StrCat("t", i % 3),
                              .cost = static_cast<uint64_t>(i % 7),
                              .run = [&](const absl::Status&) { ++ran; }});
      }
    }
    EXPECT_EQ(ran.load(), taken);
    EXPECT_GT(taken, 0);
  }
}

}  // namespace
}  // namespace baton
