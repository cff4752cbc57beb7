#include "router/event_loop.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

#include "common/base/clock.h"

namespace baton {
namespace {

TEST(EventLoop, RunsEachThreadsTasksInTheirOrderAndAllBeforeItEnds) {
  std::vector<std::vector<int>> seen(4);
  {
    EventLoop loop;
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

TEST(EventLoop, TimersRunInTheOrderOfTheirTimesAndNotWhenCancelled) {
  EventLoop loop;
  std::vector<int> ran;
  loop.Run([&] {
    const absl::Time past = SteadyNow() - absl::Seconds(1);
    loop.RunAt(past + absl::Milliseconds(2), [&] { ran.push_back(2); });
    const EventLoop::Timer cancelled = loop.RunAt(past, [&] { ran.push_back(0); });
    loop.RunAt(past + absl::Milliseconds(1), [&] { ran.push_back(1); });
    loop.RunAt(past + absl::Milliseconds(2), [&] { ran.push_back(3); });
    loop.Cancel(cancelled);
  });
  loop.Run([] {});
  loop.Run([&] { EXPECT_EQ(ran, (std::vector<int>{1, 2, 3})); });
}

TEST(EventLoop, ATimerWakesALoopThatHasNothingElseToDo) {
  EventLoop loop;
  absl::Notification fired;
  loop.Run([&] { loop.RunAt(SteadyNow() + absl::Milliseconds(5), [&] { fired.Notify(); }); });
  fired.WaitForNotification();
}

}  // namespace
}  // namespace baton
