#include "common/backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <vector>

namespace baton {
namespace {

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
