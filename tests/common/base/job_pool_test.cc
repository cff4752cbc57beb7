#include "common/base/job_pool.h"

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/busy_helper.h"

namespace baton {
namespace {

TEST(JobPool, ATakenJobRunsOnAThreadOfThePool) {
  JobPool jobs(2);
  std::promise<std::thread::id> ran;
  ASSERT_TRUE(jobs.TryTake([&ran] { ran.set_value(std::this_thread::get_id()); }));
  EXPECT_NE(ran.get_future().get(), std::this_thread::get_id());
}

TEST(JobPool, LeavesAJobToItsOwnerWhereAsManyWaitAsThereAreThreads) {
  std::atomic<int> done = 0;
  {
    JobPool jobs(1);
    BusyHelper busy(jobs);
    EXPECT_TRUE(jobs.TryTake([&done] { ++done; }));
    std::function<void()> job = [&done] { done += 10; };
    EXPECT_FALSE(jobs.TryTake(std::move(job)));
    EXPECT_EQ(done, 0);
    job();  // NOLINT(bugprone-use-after-move): untouched
    EXPECT_EQ(done, 10);
    jobs.Do([&done] { done += 100; });
    EXPECT_EQ(done, 110) << "and Do has done another at once";
    busy.End();
  }
  EXPECT_EQ(done, 111) << "the destructor waits for what was taken";
}

TEST(JobPool, WithoutThreadsItTakesNothing) {
  JobPool jobs(0);
  EXPECT_FALSE(jobs.TryTake([] {}));
  std::optional<std::thread::id> ran;
  jobs.Do([&ran] { ran = std::this_thread::get_id(); });
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(JobPool, EveryJobOfManyThreadsIsDoneOnce) {
  constexpr int kJobs = 2000;
  std::atomic<int> done = 0;
  {
    JobPool jobs(3);
    std::vector<std::thread> owners;
    for (int i = 0; i < 4; ++i) {
      owners.emplace_back([&] {
        for (int job = 0; job < kJobs; ++job) jobs.Do([&done] { ++done; });
      });
    }
    for (std::thread& owner : owners) owner.join();
  }
  EXPECT_EQ(done, 4 * kJobs);
}

}  // namespace
}  // namespace baton
