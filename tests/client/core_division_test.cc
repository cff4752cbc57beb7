#include "client/core_division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
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

TEST(DivideCores, PinsNobodyUnderAQuotaAndStartsNoMoreThreadsThanItIsWorth) {
  const auto division = DivideCores(
      {.cpus = Cpus(64), .quota = 5, .prefill_workers = 1, .decode_workers = 1, .threads = 0});
  EXPECT_EQ(division[0].threads, 2);
  EXPECT_EQ(division[1].threads, 3);
  for (const WorkerCores& cores : division) EXPECT_THAT(cores.cpus, IsEmpty());
}

}  // namespace
}  // namespace baton
