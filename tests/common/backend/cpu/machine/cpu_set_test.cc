#include "common/backend/cpu/machine/cpu_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

TEST(ParseCpuSet, ReadsNumbersAndRangesOfUsableCpus) {
  EXPECT_TRUE(ParseCpuSet("")->empty());
  const std::vector<int> usable = UsableCpus();
  EXPECT_EQ(*ParseCpuSet(absl::StrJoin(usable, ",")), usable);
  EXPECT_EQ(*ParseCpuSet(absl::StrCat(usable[0], "-", usable[0])), std::vector<int>{usable[0]});
  for (const char* bad : {"x", "0-", "-1", "1-0", "0,0", "0,,1", "0-99999", "1023"}) {
    const auto cpus = ParseCpuSet(bad);
    EXPECT_EQ(cpus.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(cpus.status().message()), testing::HasSubstr("--cpu-set"));
  }
}

TEST(DescribeThreads, SaysHowManyThereAreAndWhere) {
  EXPECT_EQ(DescribeThreads(1, {4}), "1 thread on CPU 4");
  EXPECT_EQ(DescribeThreads(2, {4, 6}), "2 threads on CPUs 4,6");
  EXPECT_EQ(DescribeThreads(1, {4, 6}), "1 thread on CPU 4") << "the second has no thread";
  EXPECT_EQ(DescribeThreads(3, {4, 6}), "3 threads on CPUs 4,6");
  EXPECT_EQ(DescribeThreads(2, {}), "2 threads, not pinned");
}

TEST(CpuAffinityGuard, GivesAPinnedThreadItsCpusBack) {
  const std::vector<int> usable = UsableCpus();
  const int last = usable.back();
  {
    const CpuAffinityGuard guard;
    PinThisThread(last);
    EXPECT_EQ(UsableCpus(), std::vector<int>{last});
    std::thread([&] { EXPECT_EQ(UsableCpus(), std::vector<int>{last}) << "inherited"; }).join();
  }
  EXPECT_EQ(UsableCpus(), usable);
}

}  // namespace
}  // namespace baton
