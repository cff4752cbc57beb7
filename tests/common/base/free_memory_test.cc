#include "common/base/free_memory.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "gtest/gtest.h"

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
