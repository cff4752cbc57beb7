#include "common/backend/cpu/cpu_set.h"

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
