#include "common/backend/cpu/machine/cpu_set.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "common/backend/cpu/machine/cpu_quota.h"

namespace baton {
std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  // On a machine with more CPUs than the set has room for, the system names none.
  return cpus.empty() ? std::vector<int>{0} : cpus;
}

int AvailableCpus() {
  const int usable = static_cast<int>(UsableCpus().size());
  const int quota = QuotaCpus();
  return quota > 0 ? std::min(usable, quota) : usable;
}

std::string DescribeThreads(int threads, const std::vector<int>& cpus) {
  const std::string count = absl::StrCat(threads, threads == 1 ? " thread" : " threads");
  if (cpus.empty()) return absl::StrCat(count, ", not pinned");
  const auto used = std::min(cpus.size(), static_cast<size_t>(threads));
  return absl::StrCat(
      count, used == 1 ? " on CPU " : " on CPUs ",
      absl::StrJoin(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(used), ","));
}

void PinThisThread(int cpu) { KeepThisThreadOn({cpu}); }

void KeepThisThreadOn(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

CpuAffinityGuard::~CpuAffinityGuard() { KeepThisThreadOn(cpus_); }

absl::StatusOr<std::vector<int>> ParseCpuSet(const std::string& text) {
  const auto invalid = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cpu-set '", text, "': ", why, "; write CPU numbers like 0,2-5"));
  };
  const std::vector<int> usable = UsableCpus();
  std::vector<int> cpus;
  if (text.empty()) return cpus;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    int first = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return invalid("not a number");
    int last = first;
    if (part.find('-') != absl::string_view::npos && !absl::SimpleAtoi(ends.second, &last)) {
      return invalid("not a number");
    }
    if (first < 0 || last < first || last >= CPU_SETSIZE) return invalid("not a range");
    for (int cpu = first; cpu <= last; ++cpu) {
      if (!std::binary_search(usable.begin(), usable.end(), cpu)) {
        return invalid(absl::StrCat("CPU ", cpu, " is not one that this process may use"));
      }
      if (std::find(cpus.begin(), cpus.end(), cpu) != cpus.end()) {
        return invalid(absl::StrCat("CPU ", cpu, " is named twice"));
      }
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

}  // namespace baton
