#include "common/backend/cpu/machine/cpu_quota.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {
namespace {

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// CPUs from "QUOTA PERIOD" in microseconds, rounded up. "max 100000" and "-1 100000" are no limit:
// 0.
int ParseQuota(const std::string& text) {
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota_us = 0;
  int64_t period_us = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &quota_us) ||
      !absl::SimpleAtoi(parts[1], &period_us) || quota_us <= 0 || period_us <= 0) {
    return 0;
  }
  constexpr int64_t kMost = 1 << 20;
  return static_cast<int>(
      std::min(kMost, quota_us / period_us + (quota_us % period_us > 0 ? 1 : 0)));
}

// The CPUs that one group grants, of version 2 or 1.
int QuotaOf(const std::string& folder, bool version_2) {
  if (version_2) return ParseQuota(ReadText(absl::StrCat(folder, "/cpu.max")));
  return ParseQuota(absl::StrCat(ReadText(absl::StrCat(folder, "/cpu.cfs_quota_us")), " ",
                                 ReadText(absl::StrCat(folder, "/cpu.cfs_period_us"))));
}

}  // namespace

int QuotaCpus() { return QuotaCpus(ReadText("/proc/self/cgroup"), "/sys/fs/cgroup"); }

int QuotaCpus(const std::string& groups, const std::string& root) {
  int least = 0;
  for (const absl::string_view line : absl::StrSplit(groups, '\n')) {
    // A line is "4:cpu,cpuacct:/path", or of version 2 "0::/path".
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const bool version_2 = fields[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (!version_2 && std::find(controllers.begin(), controllers.end(), "cpu") == controllers.end())
      continue;
    const std::string mount = version_2 ? root : absl::StrCat(root, "/cpu");
    // In a container the mount may begin at the group itself. Then only the shortest path is found.
    std::string path = fields[2] == "/" ? "" : fields[2];
    while (true) {
      const int quota = QuotaOf(absl::StrCat(mount, path), version_2);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
      if (path.empty()) break;
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  }
  return least;
}

}  // namespace baton
