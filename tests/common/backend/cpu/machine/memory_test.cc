#include "common/backend/cpu/machine/memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/resident_memory.h"

namespace baton {
namespace {

constexpr int64_t kMib = int64_t{1} << 20;

bool HasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(file, text) && text.find("[never]") == std::string::npos;
}

TEST(CpuMemory, GivesZeroedAlignedBuffersThatDoNotOverlap) {
  CpuMemory memory;
  std::vector<BackendBuffer> buffers;
  for (const size_t bytes : {1, 64, 65, 4096, 3000000, 20000000, 60000000, 2300, 0, 16 << 20}) {
    buffers.push_back(*memory.Allocate(bytes));
    EXPECT_EQ(buffers.back().size_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().data()) % 64, 0u);
    uint8_t* begin = buffers.back().data();
    EXPECT_EQ(std::count(begin, begin + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
    std::memset(begin, 0xff, bytes);
  }
}

// The vectors share slabs: with a mapping for each, 5,000 vectors would take 10 GB of huge pages.
TEST(CpuMemory, SmallBuffersShareTheirPages) {
  CpuMemory memory;
  std::vector<BackendBuffer> buffers;
  const int64_t before = ProcessMemoryBytes("RssAnon");
  for (int i = 0; i < 5000; ++i) {
    buffers.push_back(*memory.Allocate(2304));
    std::memset(buffers.back().data(), 1, 2304);
  }
  EXPECT_LT(ProcessMemoryBytes("RssAnon") - before, 16 * kMib) << "for 11 MiB of vectors";
}

TEST(CpuMemory, NothingIsResidentBeforeItIsTouchedOrAfterItIsFreed) {
  CpuMemory memory;
  const int64_t before = ProcessMemoryBytes("RssAnon");
  BackendBuffer large = *memory.Allocate(static_cast<size_t>(300 * kMib));
  std::vector<BackendBuffer> small;
  for (int i = 0; i < 50; ++i) small.push_back(*memory.Allocate(static_cast<size_t>(kMib)));
  EXPECT_LT(ProcessMemoryBytes("RssAnon") - before, 4 * kMib);
  std::memset(large.data(), 1, static_cast<size_t>(50 * kMib));
  for (BackendBuffer& buffer : small) std::memset(buffer.data(), 1, buffer.size_bytes());
  EXPECT_GT(ProcessMemoryBytes("RssAnon") - before, 95 * kMib);
  large = BackendBuffer();
  small.clear();
  EXPECT_LT(ProcessMemoryBytes("RssAnon") - before, 4 * kMib);
}

TEST(CpuMemory, LiesInHugePages) {
  if (!HasHugePages()) GTEST_SKIP() << "this machine has no transparent huge pages";
  CpuMemory memory;
  const char* rollup = "/proc/self/smaps_rollup";
  const int64_t before = ProcessMemoryBytes("AnonHugePages", rollup);
  BackendBuffer large = *memory.Allocate(static_cast<size_t>(32 * kMib));
  std::memset(large.data(), 1, large.size_bytes());
  std::vector<BackendBuffer> small;
  for (int i = 0; i < 48; ++i) {
    small.push_back(*memory.Allocate(static_cast<size_t>(2 * kMib / 3)));
    std::memset(small.back().data(), 1, small.back().size_bytes());
  }
  // Memory may be too fragmented for some of the huge pages.
  EXPECT_GE(ProcessMemoryBytes("AnonHugePages", rollup) - before, 32 * kMib);
}

}  // namespace
}  // namespace baton
