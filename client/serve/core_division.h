// Divides the machine's CPUs among the workers that a local cluster starts.
#pragma once

#include <vector>

namespace baton {

struct CoreDivisionOptions {
  std::vector<int> cpus;        // CPUs to divide, at least one
  std::vector<int> taken = {};  // those of `cpus` that other processes have claimed
  int quota = 0;                // how many of `cpus` may be busy at a time; 0: all
  int prefill_workers = 0;
  int decode_workers = 0;
  int threads = 0;  // threads of each worker; 0: as many as it gets CPUs
};

struct WorkerCores {
  int threads = 1;
  std::vector<int> cpus;  // CPUs of this worker alone; empty: it shares all and pins no thread
};

// Returns one element for each worker, the prefill workers first. Workers that share CPUs are
// slower together (bench/shared_cores.cc), so no two get a CPU in common; the rest of an uneven
// division goes to the decode workers. If fewer CPUs are free than there are workers, or than
// `threads` needs, all workers share all CPUs, the taken ones too, with as many threads as if none
// were taken. A quota below the number of CPUs has the same effect: other containers of the machine
// would pin their threads to the same CPUs. Pure. REQUIRES: at least one CPU and one worker.
std::vector<WorkerCores> DivideCores(const CoreDivisionOptions& options);

}  // namespace baton
