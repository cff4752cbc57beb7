#include "common/backend/cpu/machine/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "common/backend/cpu/machine/cpu_set.h"

namespace baton {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr auto kPatience =
    std::chrono::seconds(10);  // the wait for events that come at once unless broken

template <class Condition>
bool Await(Condition condition) {
  for (const auto end = steady_clock::now() + kPatience; !condition(); std::this_thread::yield()) {
    if (steady_clock::now() > end) return false;
  }
  return true;
}

double CpuSecondsOfThisProcess() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPool, RunsEachChunkOnceOperationAfterOperation) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads, {});
    for (int round = 0; round < 2000; ++round) {
      const int chunks = round % 17;
      std::vector<std::atomic<int>> runs(17);
      pool.Run(chunks, [&](int thread, int chunk) {
        ASSERT_TRUE(thread >= 0 && thread < threads);
        ++runs[static_cast<size_t>(chunk)];
      });
      for (int chunk = 0; chunk < 17; ++chunk) {
        ASSERT_EQ(runs[static_cast<size_t>(chunk)], chunk < chunks ? 1 : 0);
      }
    }
  }
}

// Each chunk waits for the others, so that only as many threads as chunks can finish them.
TEST(ThreadPool, EveryThreadTakesPartAndWakesUpAgain) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads, {});
  for (int round = 0; round < 200; ++round) {
    std::barrier all_here(kThreads);
    std::vector<std::atomic<int>> runs(kThreads);
    pool.Run(kThreads, [&](int thread, int) {
      ++runs[static_cast<size_t>(thread)];
      all_here.arrive_and_wait();
    });
    for (const std::atomic<int>& count : runs) ASSERT_EQ(count, 1);
  }
}

TEST(ThreadPool, NeverRunsTwoChunksOnOneThreadAtOnce) {
  ThreadPool pool(4, {});
  std::vector<std::atomic<int>> inside(4);
  for (int round = 0; round < 200; ++round) {
    pool.Run(64, [&](int thread, int) {
      EXPECT_EQ(inside[static_cast<size_t>(thread)].fetch_add(1), 0);
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
}

// Plain memory on purpose: the thread sanitizer sees an operation that begins or ends too early.
TEST(ThreadPool, AnOperationSeesWhatWasWrittenBeforeItAndIsSeenAfterIt) {
  for (const int threads : {2, 3, 2 * AvailableCpus() + 1}) {
    ThreadPool pool(threads, {});
    std::vector<int> values(61, 0);
    for (int round = 0; round < 1500; ++round) {
      // Longer than the helpers spin, now and then.
      if (round % 50 == 0) std::this_thread::sleep_for(microseconds(300));
      const int chunks = round % 61 + 1;
      pool.Run(chunks, [&](int /*thread*/, int chunk) { ++values[static_cast<size_t>(chunk)]; });
      for (int chunk = 0; chunk < chunks; ++chunk) --values[static_cast<size_t>(chunk)];
      ASSERT_EQ(std::count(values.begin(), values.end(), 0), 61) << "round " << round;
    }
  }
}

// Thread 1 does not finish the chunk that it has begun before all others are done.
TEST(ThreadPool, OthersTakeOverWhatAHeldUpThreadHasNotBegun) {
  constexpr int kChunks = 16;
  ThreadPool pool(2, {});
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> done = 0;
    std::atomic<bool> begun = false;
    pool.Run(kChunks, [&](int thread, int /*chunk*/) {
      if (thread == 1) {
        begun = true;
        EXPECT_TRUE(HasFailure() || Await([&] { return done == kChunks - 1; }));
      } else {
        EXPECT_TRUE(Await([&] { return begun.load(); }));
      }
      ++done;
    });
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(done, kChunks);
  }
}

// No thread can be quicker than another where all wait for each other.
TEST(ThreadPool, AThreadComputesTheSameChunksOperationAfterOperation) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 300;
  ThreadPool pool(kThreads, {});
  int same = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::barrier all_here(kThreads);
    std::atomic<int> own = 0;
    pool.Run(kThreads, [&](int thread, int chunk) {
      if (thread == chunk) ++own;
      all_here.arrive_and_wait();
    });
    if (own == kThreads) ++same;
  }
  EXPECT_GT(same, kRounds * 9 / 10) << "a sixth is what chance gives";
}

TEST(ThreadPool, HelpersThatHaveNothingToDoUseNoCpu) {
  const int threads = std::max(2, AvailableCpus());  // no more: then they would not spin
  ThreadPool pool(threads, {});
  pool.Run(threads, [](int, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double before = CpuSecondsOfThisProcess();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(CpuSecondsOfThisProcess() - before, 0.02);
}

TEST(ThreadPool, ThreadsStayOnTheCpusTheyWereGiven) {
  const CpuAffinityGuard guard;
  const std::vector<int> cpus = {UsableCpus().back(), UsableCpus().front()};
  ThreadPool pool(2, cpus);
  std::barrier both_here(2);
  pool.Run(2, [&](int thread, int /*chunk*/) {
    both_here.arrive_and_wait();
    EXPECT_EQ(UsableCpus(), std::vector<int>{cpus[static_cast<size_t>(thread)]});
  });
}

TEST(ThreadPool, PiecesCoverTheRangeWithoutOverlap) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads, {});
    for (const int count : {0, 1, 2, 11, 12, 13, 1000}) {
      std::vector<std::atomic<int>> seen(1000);
      pool.ParallelFor(count, [&](int begin, int end) {
        EXPECT_LT(begin, end);
        for (int i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i < count ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace baton
