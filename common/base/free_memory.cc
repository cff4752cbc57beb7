#include "common/base/free_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace baton {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr char kLimitFile[] = "/sys/fs/cgroup/memory.max";
constexpr char kUsedFile[] = "/sys/fs/cgroup/memory.current";
constexpr char kStatFile[] = "/sys/fs/cgroup/memory.stat";

// The number behind `name` in a file whose lines begin with a name. 0: there is none.
uint64_t ReadEntry(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(name)) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  }
  return 0;
}

uint64_t AvailableOnMachine() { return ReadEntry("/proc/meminfo", "MemAvailable:") * 1024; }

// The number in a file of the control group. A file that cannot be read, or has no number, means
// that there is no limit.
uint64_t ReadBytes(const char* path) {
  std::ifstream file(path);
  uint64_t bytes = 0;
  return file >> bytes ? bytes : kUnlimited;
}

}  // namespace

uint64_t FreeMemoryBytes() {
  const uint64_t limit = ReadBytes(kLimitFile);
  if (limit == kUnlimited) return AvailableOnMachine();
  const uint64_t used = std::min(ReadBytes(kUsedFile), limit);
  return std::min(AvailableOnMachine(), limit - used);
}

double MemoryUse::part() const {
  const uint64_t others = group_bytes - std::min(own_bytes, group_bytes);
  if (limit_bytes == 0) return 0;
  if (limit_bytes <= others) return 1;
  return std::min(1.0, static_cast<double>(own_bytes) / static_cast<double>(limit_bytes - others));
}

MemoryUse ReadMemoryUse() {
  const uint64_t limit = ReadBytes(kLimitFile);
  if (limit == kUnlimited) return {};
  const uint64_t files =
      ReadEntry(kStatFile, "active_file ") + ReadEntry(kStatFile, "inactive_file ");
  const uint64_t used = ReadBytes(kUsedFile);
  return {.limit_bytes = limit,
          .group_bytes = used - std::min(files, used),
          .own_bytes = ReadEntry("/proc/self/status", "RssAnon:") * 1024};
}

}  // namespace baton
