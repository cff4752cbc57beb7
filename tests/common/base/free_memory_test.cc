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

}  // namespace
}  // namespace baton
