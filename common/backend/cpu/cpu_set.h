// Which CPUs this process may use, and staying on one of them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// "0,2-5" -> {0, 2, 3, 4, 5}. INVALID_ARGUMENT names --cpu-set; so does a CPU that this process may
// not use.
absl::StatusOr<std::vector<int>> ParseCpuSet(const std::string& text);
// The numbers of the CPUs that this process may run on, ascending; at least one.
std::vector<int> UsableCpus();
// How many they are, or as many as the control group's quota is worth (cpu_quota.h) if that is
// less.
int AvailableCpus();
// How a pool of threads stands on `cpus` (common/backend/cpu/thread_pool.h): "1 thread on CPU 0",
// "2 threads on CPUs 1,2", "1 thread, not pinned".
std::string DescribeThreads(int threads, const std::vector<int>& cpus);

// The calling thread stays on `cpu` from now on. Where that CPU was taken away since the flag was
// checked, it stays where it is.
void PinThisThread(int cpu);
// So do, on `cpus`, the calling thread and the threads and processes that it starts.
void KeepThisThreadOn(const std::vector<int>& cpus);

// Gives the thread that made it its CPUs back when destroyed: for a thread that another object
// pins, and that has other work later or starts threads, which inherit its CPUs.
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
