#include "router/calls/thread_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

#include "common/base/clock.h"

namespace baton {
namespace {

TEST(ThreadLoop, RunsEachThreadsTasksInTheirOrderAndAllBeforeItEnds) {
  std::vector<std::vector<int>> seen(4);
  {
    ThreadLoop loop;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < seen.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 1000; ++i) loop.Post([&seen, t, i] { seen[t].push_back(i); });
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const std::vector<int>& numbers : seen) {
    ASSERT_EQ(numbers.size(), 1000u);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  }
}

TEST(ThreadLoop, TimersRunInTheOrderOfTheirTimesAndNotWhenCancelled) {
  ThreadLoop loop;
  std::vector<int> ran;
  loop.Run([&] {
    const absl::Time past = SteadyNow() - absl::Seconds(1);
    loop.RunAt(past + absl::Milliseconds(2), [&] { ran.push_back(2); });
    const ThreadLoop::Timer cancelled = loop.RunAt(past, [&] { ran.push_back(0); });
    loop.RunAt(past + absl::Milliseconds(1), [&] { ran.push_back(1); });
    loop.RunAt(past + absl::Milliseconds(2), [&] { ran.push_back(3); });
    loop.Cancel(cancelled);
  });
  loop.Run([] {});
  loop.Run([&] { EXPECT_EQ(ran, (std::vector<int>{1, 2, 3})); });
}

TEST(ThreadLoop, ATimerWakesALoopThatHasNothingElseToDo) {
  ThreadLoop loop;
  absl::Notification fired;
  loop.Run([&] { loop.RunAt(SteadyNow() + absl::Milliseconds(5), [&] { fired.Notify(); }); });
  fired.WaitForNotification();
}

TEST(ThreadLoop, NeverRunsTwoTasksAtOnceWhoeverRunsThem) {
  int running = 0, ran = 0;  // no lock: the loop is one
  std::vector<int> last(4, -1);
  {
    ThreadLoop loop;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < last.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5000; ++i) {
          auto task = [&, t, i] {
            EXPECT_EQ(++running, 1);
            EXPECT_EQ(last[t] + 1, i) << "in the order of their posting";
            last[t] = i;
            ++ran;
            --running;
          };
          if (i % 3 == 0) {
            loop.Post(task);
          } else {
            loop.PostOrRun(task);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(ran, 20000);
}

TEST(ThreadLoop, APosterWhomNobodyHindersRunsItsTaskItselfAndThoseThatItPosts) {
  ThreadLoop loop;
  loop.Run([] {});
  const std::thread::id self = std::this_thread::get_id();
  std::vector<std::thread::id> by;
  loop.PostOrRun([&] {
    loop.PostOrRun([&] { by.push_back(std::this_thread::get_id()); });
    EXPECT_TRUE(by.empty()) << "not within another task";
    by.push_back(std::this_thread::get_id());
  });
  loop.Run([&] { EXPECT_EQ(by, std::vector<std::thread::id>(2, self)); });
}

TEST(ThreadLoop, APosterIsNotKeptForEver) {
  std::atomic<bool> stop = false;
  std::function<void()> endless;
  ThreadLoop loop;  // ends before what its tasks use
  endless = [&] {
    if (!stop) loop.Post(endless);
  };
  loop.PostOrRun(endless);
  stop = true;  // reached
}

TEST(ThreadLoop, ATimerSetByAPosterWakesTheLoop) {
  ThreadLoop loop;
  for (int i = 0; i < 20; ++i) {
    absl::Notification fired;
    loop.PostOrRun([&] {
      loop.RunAt(SteadyNow() + absl::Milliseconds(1), [&] { fired.Notify(); });
      loop.RunAt(SteadyNow() + absl::Hours(1), [] {});
    });
    fired.WaitForNotification();
  }
}

}  // namespace
}  // namespace baton
