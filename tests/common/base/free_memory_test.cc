#include "common/base/free_memory.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

uint64_t MachineMemoryBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(FreeMemory, IsSomethingAndNoMoreThanTheMachineHas) {
  const uint64_t free = FreeMemoryBytes();
  EXPECT_GT(free, uint64_t{16} << 20);  // in bytes: in the kernel's own unit, KiB, it would be less
  EXPECT_LE(free, MachineMemoryBytes());
}

TEST(FreeMemory, IsNoMoreThanTheControlGroupAllows) {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  if (!(file >> limit)) GTEST_SKIP() << "this process's control group has no limit";
  EXPECT_LE(FreeMemoryBytes(), limit);
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A machine of 8 GiB, of which 4 are available, whose files are below a folder of their own.
class MemoryGroupsTest : public testing::Test {
 protected:
  MemoryGroupsTest() {
    Write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
    Write("/proc/self/status", "Name: x\nRssAnon: 102400 kB\n");
  }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // A group of version 2 with cached files of 30 MiB.
  void WriteGroup(const std::string& folder, const std::string& limit, uint64_t used) {
    Write(folder + "/memory.max", limit + "\n");
    Write(folder + "/memory.current", std::to_string(used) + "\n");
    Write(folder + "/memory.stat", "anon 1\nactive_file 10485760\ninactive_file 20971520\n");
  }
  MemoryGroups groups() const { return MemoryGroups(folder_.path()); }

  const TemporaryFolder folder_{"memory_groups"};
};

constexpr char kVersion2Mount[] =
    "31 23 0:28 / /proc rw - proc proc rw\n"
    "32 23 0:29 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

TEST_F(MemoryGroupsTest, WithoutALimitOnlyTheProcessItselfIsKnown) {
  for (const char* limit : {"max", "8589934592", "nonsense"}) {
    Write("/proc/self/cgroup", "0::/\n");
    Write("/proc/self/mountinfo", kVersion2Mount);
    WriteGroup("/sys/fs/cgroup", limit, 200 * kMiB);
    EXPECT_EQ(groups().Read().limit_bytes, 0u) << limit;
    EXPECT_EQ(groups().Read().own_bytes, 100 * kMiB);
    EXPECT_EQ(groups().FreeBytes(), 4096 * kMiB);
    EXPECT_EQ(groups().machine_bytes(), 8192 * kMiB);
  }
}

TEST_F(MemoryGroupsTest, AContainersLimitIsThatOfTheMountsOwnGroup) {
  // A container sees its own group at the mount, whatever the path says that the process is in.
  for (const char* place : {"0::/\n", "0::/../other\n", "0::/unseen\n"}) {
    Write("/proc/self/cgroup", place);
    Write("/proc/self/mountinfo", kVersion2Mount);
    WriteGroup("/sys/fs/cgroup", "536870912", 230 * kMiB);
    const MemoryUse use = groups().Read();
    EXPECT_EQ(use.limit_bytes, 512 * kMiB) << place;
    EXPECT_EQ(use.group_bytes, 200 * kMiB) << "without cached files";
    EXPECT_EQ(use.own_bytes, 100 * kMiB);
    EXPECT_EQ(groups().FreeBytes(), (512 - 210) * kMiB) << "with those that were used lately";
  }
}

TEST_F(MemoryGroupsTest, ALimitOfAServiceOrOfAGroupAboveItIsFound) {
  Write("/proc/self/cgroup", "0::/system.slice/baton.service\n");
  Write("/proc/self/mountinfo", kVersion2Mount);
  WriteGroup("/sys/fs/cgroup/system.slice/baton.service", "536870912", 230 * kMiB);
  EXPECT_EQ(groups().Read().limit_bytes, 512 * kMiB);
  WriteGroup("/sys/fs/cgroup/system.slice", "1073741824", 1024 * kMiB);
  EXPECT_EQ(groups().Read().limit_bytes, 1024 * kMiB) << "others have left less in that one";
  EXPECT_EQ(groups().FreeBytes(), 20 * kMiB);
  WriteGroup("/sys/fs/cgroup/system.slice/baton.service", "max", 230 * kMiB);
  EXPECT_EQ(groups().Read().limit_bytes, 1024 * kMiB);
}

TEST_F(MemoryGroupsTest, Version2MayBeMountedElsewhereAndFromAGroupOn) {
  Write("/proc/self/cgroup", "0::/pods/baton/router\n");
  Write("/proc/self/mountinfo", "32 23 0:29 /pods/baton /cgroups rw - cgroup2 none rw\n");
  WriteGroup("/cgroups/router", "536870912", 230 * kMiB);
  EXPECT_EQ(groups().Read().limit_bytes, 512 * kMiB);
}

TEST_F(MemoryGroupsTest, Version1sMemoryControllerCountsWhereItIsThere) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/jobs/1\n0::/user.slice\n");
  Write("/proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  const std::string folder = "/sys/fs/cgroup/memory/jobs/1";
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write(folder + "/memory.limit_in_bytes", "536870912\n");
  Write(folder + "/memory.usage_in_bytes", "241172480\n");
  Write(folder + "/memory.stat",
        "active_file 1\ninactive_file 1\ntotal_inactive_file 20971520\ntotal_active_file "
        "10485760\n");
  const MemoryUse use = groups().Read();
  EXPECT_EQ(use.limit_bytes, 512 * kMiB);
  EXPECT_EQ(use.group_bytes, 200 * kMiB);
}

TEST(MemoryUse, IsThePartOfWhatTheOthersLeave) {
  EXPECT_EQ((MemoryUse{.limit_bytes = 0, .group_bytes = 0, .own_bytes = 0}.part()), 0);
  EXPECT_EQ((MemoryUse{.limit_bytes = 1000, .group_bytes = 250, .own_bytes = 250}.part()), 0.25);
  EXPECT_EQ((MemoryUse{.limit_bytes = 1000, .group_bytes = 900, .own_bytes = 100}.part()), 0.5);
  EXPECT_EQ((MemoryUse{.limit_bytes = 1000, .group_bytes = 1100, .own_bytes = 0}.part()), 1);
  EXPECT_EQ((MemoryUse{.limit_bytes = 1000, .group_bytes = 100, .own_bytes = 2000}.part()), 1);
}

TEST(MemoryUse, OfThisProcessIsThatOfItsControlGroup) {
  const MemoryUse use = ReadMemoryUse();
  if (use.limit_bytes == 0) GTEST_SKIP() << "this process's control group has no limit";
  EXPECT_GT(use.own_bytes, uint64_t{1} << 16);
  EXPECT_GT(use.group_bytes, use.own_bytes / 2);
  EXPECT_LE(use.group_bytes, use.limit_bytes);
}

}  // namespace
}  // namespace baton
