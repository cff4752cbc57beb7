#include "client/serve/signal_watcher.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

// The numbers that a watcher has seen, in order.
class Seen {
 public:
  void Add(int number) {
    absl::MutexLock lock(&mutex_);
    numbers_.push_back(number);
  }
  std::vector<int> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&] { return numbers_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(30));
    return numbers_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<int> numbers_;
};

// A watcher changes its thread's signals, so each test has a process of its own, which ends with 0
// if all is well.
TEST(SignalWatcherDeathTest, CallsForEverySignalWithItsNumberAndEndsByItself) {
  EXPECT_EXIT(
      {
        Seen seen;
        std::vector<int> numbers;
        {
          const SignalWatcher watcher([&](int number) { seen.Add(number); });
          for (const int number : {SIGTERM, SIGINT, SIGINT}) {
            kill(getpid(), number);
            numbers = seen.Await(numbers.size() + 1);
          }
        }
        std::exit(numbers == std::vector<int>{SIGTERM, SIGINT, SIGINT} ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SignalWatcherDeathTest, CallsOnAThreadOfItsOwn) {
  EXPECT_EXIT(
      {
        Seen seen;
        std::thread::id caller;
        const SignalWatcher watcher([&](int number) {
          caller = std::this_thread::get_id();
          seen.Add(number);
        });
        kill(getpid(), SIGINT);
        seen.Await(1);
        std::_Exit(caller != std::this_thread::get_id() && caller != std::thread::id() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(SignalWatcherDeathTest, ThreadsThatStartLaterLeaveTheSignalsToIt) {
  EXPECT_EXIT(
      {
        Seen seen;
        const SignalWatcher watcher([&](int number) { seen.Add(number); });
        bool blocked = false;
        std::thread([&] {
          sigset_t mask;
          pthread_sigmask(SIG_BLOCK, nullptr, &mask);
          blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
        }).join();
        std::_Exit(blocked ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace baton
