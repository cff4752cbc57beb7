#include "common/base/thread_group.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ThreadGroup, ItsDestructorReturnsAfterEveryFunctionAndWhatItHeldAreGone) {
  std::atomic<int> gone = 0;
  std::promise<void> go_on;
  const std::shared_future<void> may_end = go_on.get_future().share();
  {
    ThreadGroup threads;
    for (int i = 0; i < 8; ++i) {
      std::shared_ptr<void> held(nullptr, [&gone](void*) { ++gone; });
      threads.Start([may_end, held = std::move(held)] { may_end.wait(); });
    }
    EXPECT_EQ(threads.size(), 8u);
    EXPECT_EQ(gone, 0);
    go_on.set_value();
  }
  EXPECT_EQ(gone, 8);
}

TEST(ThreadGroup, ThreadsThatHaveEndedDoNotAddUp) {
  constexpr int kThreads = 200;
  ThreadGroup threads;
  for (int i = 0; i < kThreads; ++i) {
    std::promise<void> ended;
    threads.Start([&ended] { ended.set_value(); });
    ended.get_future().wait();
  }
  // The last ones may not have told yet that nothing is left for them to do.
  EXPECT_LT(threads.size(), size_t{kThreads});
}

TEST(ThreadGroup, AFunctionMayStartTheNextWhileTheGroupEnds) {
  int last = 0;
  std::function<void(int)> run;
  {
    ThreadGroup threads;
    run = [&](int number) {
      last = number;
      if (number < 20) threads.Start([&run, number] { run(number + 1); });
    };
    threads.Start([&run] { run(1); });
  }
  EXPECT_EQ(last, 20);
}

}  // namespace
}  // namespace baton
