// How `baton serve` divides the machine's CPUs among the workers it starts.
#pragma once

#include <string>
#include <vector>

namespace baton {

struct CoreDivisionOptions {
  std::vector<int> cpus;  // to divide, at least one
  int prefill_workers = 0;
  int decode_workers = 0;
  int threads = 0;  // of each worker; 0: as many as it has CPUs
};

struct WorkerCores {
  int threads = 1;
  std::vector<int> cpus;  // for its threads alone; empty: shared with the others, not pinned
};

// One element per worker, the prefill workers first. Workers whose threads share CPUs are slower
// together (bench/shared_cores.cc), so no two have one in common; what cannot be divided
// evenly goes to the decode workers. Where there are fewer CPUs than workers, or than the threads
// asked for, all share all. REQUIRES: cpus and workers.
std::vector<WorkerCores> DivideCores(const CoreDivisionOptions& options);

// "1 thread on CPU 0", "2 threads on CPUs 1,2", "1 thread, not pinned".
std::string DescribeCores(const WorkerCores& cores);

}  // namespace baton
