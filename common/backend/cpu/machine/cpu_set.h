// The CPUs that this process may use, and the pinning of threads to them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// Parses "0,2-5" to {0, 2, 3, 4, 5}, and "" to no CPU. INVALID_ARGUMENT names --cpu-set if the
// text is malformed, or names a CPU twice or one that this process may not use.
absl::StatusOr<std::vector<int>> ParseCpuSet(const std::string& text);
// The numbers of the CPUs that this process may run on, ascending; at least one.
std::vector<int> UsableCpus();
// The number of usable CPUs, or of those that the control group's quota is worth (cpu_quota.h) if
// that is less.
int AvailableCpus();
// The text for a pool of threads on `cpus` (common/backend/cpu/machine/thread_pool.h): "1 thread on
// CPU 0", "2 threads on CPUs 1,2", "1 thread, not pinned".
std::string DescribeThreads(int threads, const std::vector<int>& cpus);

// Pins the calling thread to `cpu`. Where that CPU was taken away since the flag was checked, the
// thread stays where it is.
void PinThisThread(int cpu);
// Keeps the calling thread, and the threads and processes that it starts, on `cpus`. Where
// all of these were taken away, nothing changes.
void KeepThisThreadOn(const std::vector<int>& cpus);

// Remembers the CPUs of the thread that makes it, and gives them back when destroyed: for a thread
// that another object pins, and that has other work later or starts threads, which inherit its
// CPUs.
class CpuAffinityGuard {
 public:
  CpuAffinityGuard() : cpus_(UsableCpus()) {}
  ~CpuAffinityGuard();
  CpuAffinityGuard(const CpuAffinityGuard&) = delete;
  CpuAffinityGuard& operator=(const CpuAffinityGuard&) = delete;

 private:
  const std::vector<int> cpus_;
};

}  // namespace baton
