#include "common/backend/cpu/machine/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace baton {
namespace {

class CpuQuota : public testing::Test {
 protected:
  CpuQuota() { std::filesystem::remove_all(root_); }
  ~CpuQuota() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const auto file = std::filesystem::path(root_) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::string root_ = testing::TempDir() + "/cpu_quota_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CpuQuota, IsRoundedUpToWholeCpus) {
  const struct {
    const char* text;
    int cpus;
  } kCases[] = {{"200000 100000\n", 2}, {"150000 100000\n", 2}, {"1000 100000\n", 1},
                {"100000 100000\n", 1}, {"max 100000\n", 0},    {"", 0},
                {"nonsense\n", 0},      {"100000 0\n", 0},      {"-5 100000\n", 0},
                {"6400000 100000", 64}, {"100001 100000\n", 2}};
  for (const auto& [text, cpus] : kCases) {
    Write("cpu.max", text);
    EXPECT_EQ(QuotaCpus("0::/\n", root_), cpus) << text;
  }
}

TEST_F(CpuQuota, IsTheLeastOfTheGroupAndOfThoseAboveIt) {
  const std::string groups = "0::/system.slice/baton.service\n";
  Write("system.slice/baton.service/cpu.max", "400000 100000\n");
  EXPECT_EQ(QuotaCpus(groups, root_), 4);
  Write("system.slice/cpu.max", "300000 100000\n");
  EXPECT_EQ(QuotaCpus(groups, root_), 3);
  Write("system.slice/baton.service/cpu.max", "max 100000\n");
  EXPECT_EQ(QuotaCpus(groups, root_), 3);
}

TEST_F(CpuQuota, IsReadFromControlGroupsOfVersion1) {
  const std::string groups = "9:name=systemd:/\n4:cpu,cpuacct:/docker/0123\n3:cpuset:/\n0::/\n";
  Write("cpu/cpu.cfs_quota_us", "250000\n");  // the mount begins at the container's own group
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(QuotaCpus(groups, root_), 3);
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(QuotaCpus(groups, root_), 0);
}

TEST_F(CpuQuota, IsNoLimitWhereThereIsNothingToRead) {
  EXPECT_EQ(QuotaCpus("", root_), 0);
  EXPECT_EQ(QuotaCpus("0::/a/b\n", root_), 0);
}

}  // namespace
}  // namespace baton
