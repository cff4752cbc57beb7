#include "client/serve/core_division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace baton {
namespace {

using testing::IsEmpty;

std::vector<int> Cpus(int count) {
  std::vector<int> cpus(static_cast<size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 3);
  return cpus;
}

TEST(DivideCores, GivesNoCpuTwiceAndLeavesNoneIdle) {
  for (int cpus = 1; cpus <= 20; ++cpus) {
    for (int prefill = 0; prefill <= 4; ++prefill) {
      for (int decode = 1; decode <= 4; ++decode) {
        const auto division =
            DivideCores({.cpus = Cpus(cpus), .prefill_workers = prefill, .decode_workers = decode});
        ASSERT_EQ(division.size(), static_cast<size_t>(prefill + decode));
        std::set<int> used;
        size_t given = 0;
        for (const WorkerCores& cores : division) {
          used.insert(cores.cpus.begin(), cores.cpus.end());
          given += cores.cpus.size();
          EXPECT_GE(cores.threads, 1);
          if (cpus >= prefill + decode) {
            EXPECT_EQ(cores.cpus.size(), static_cast<size_t>(cores.threads));
          } else {
            EXPECT_THAT(cores.cpus, IsEmpty()) << "they share";
            EXPECT_EQ(cores.threads, 1);
          }
        }
        EXPECT_EQ(used.size(), given);
        EXPECT_EQ(given, cpus >= prefill + decode ? static_cast<size_t>(cpus) : 0u);
        EXPECT_LE(division.front().threads, division.back().threads);
      }
    }
  }
}

TEST(DivideCores, GivesWhatIsLeftToTheDecodeWorkers) {
  const auto division = DivideCores({.cpus = Cpus(7), .prefill_workers = 1, .decode_workers = 2});
  EXPECT_EQ(division[0].threads, 2);
  EXPECT_EQ(division[1].threads + division[2].threads, 5);
}

TEST(DivideCores, KeepsToTheThreadsAskedForAndSharesWhereTheyAreTooMany) {
  auto division =
      DivideCores({.cpus = Cpus(8), .prefill_workers = 1, .decode_workers = 1, .threads = 3});
  EXPECT_THAT(division[1].cpus, testing::ElementsAre(6, 7, 8));
  division =
      DivideCores({.cpus = Cpus(2), .prefill_workers = 1, .decode_workers = 1, .threads = 2});
  for (const WorkerCores& cores : division) {
    EXPECT_EQ(cores.threads, 2);
    EXPECT_THAT(cores.cpus, IsEmpty());
  }
}

TEST(DivideCores, LeavesToOthersWhatTheyTookAndSharesWhereTooFewAreLeft) {
  std::mt19937 random(1);
  int shared = 0, divided = 0;
  for (int round = 0; round < 20'000; ++round) {
    CoreDivisionOptions options = {.cpus = Cpus(1 + static_cast<int>(random() % 16)),
                                   .prefill_workers = static_cast<int>(random() % 4),
                                   .decode_workers = 1 + static_cast<int>(random() % 3),
                                   .threads = static_cast<int>(random() % 4)};
    const auto alone = DivideCores(options);
    std::vector<int> left;
    for (const int cpu : options.cpus) (random() % 2 == 0 ? left : options.taken).push_back(cpu);
    const auto division = DivideCores(options);
    ASSERT_EQ(division.size(), alone.size());
    std::vector<int> used;
    for (const WorkerCores& cores : division) {
      used.insert(used.end(), cores.cpus.begin(), cores.cpus.end());
    }
    const size_t needed = division.size() * static_cast<size_t>(std::max(1, options.threads));
    if (left.size() < needed) {
      ++shared;
      EXPECT_THAT(used, IsEmpty());
      for (size_t w = 0; w < division.size(); ++w) {
        EXPECT_EQ(division[w].threads, alone[w].threads);
      }
    } else {
      ++divided;
      left.resize(options.threads == 0 ? left.size() : needed);
      EXPECT_EQ(used, left) << "the first that are left, each once, and all unless told otherwise";
      for (const WorkerCores& cores : division) {
        EXPECT_EQ(cores.cpus.size(), static_cast<size_t>(cores.threads));
      }
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_GT(divided, 1000);
}

TEST(DivideCores, PinsNobodyUnderAQuotaAndStartsNoMoreThreadsThanItIsWorth) {
  const auto division = DivideCores(
      {.cpus = Cpus(64), .quota = 5, .prefill_workers = 1, .decode_workers = 1, .threads = 0});
  EXPECT_EQ(division[0].threads, 2);
  EXPECT_EQ(division[1].threads, 3);
  for (const WorkerCores& cores : division) EXPECT_THAT(cores.cpus, IsEmpty());
}

}  // namespace
}  // namespace baton
