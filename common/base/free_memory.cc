#include "common/base/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace baton {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

uint64_t AvailableOnMachine() {
  std::ifstream meminfo("/proc/meminfo");
  std::string line;
  while (std::getline(meminfo, line)) {
    if (line.starts_with("MemAvailable:")) {
      return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10) * 1024;
    }
  }
  return 0;
}

// The number in a file of the control group. A file that cannot be read, or has no number, means
// that there is no limit.
uint64_t ReadBytes(const char* path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

}  // namespace

uint64_t FreeMemoryBytes() {
  const uint64_t limit = ReadBytes("/sys/fs/cgroup/memory.max");
  if (limit == kUnlimited) return AvailableOnMachine();
  const uint64_t used = std::min(ReadBytes("/sys/fs/cgroup/memory.current"), limit);
  return std::min(AvailableOnMachine(), limit - used);
}

}  // namespace baton
