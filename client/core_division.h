// How a local cluster divides the machine's CPUs among the workers it starts.
#pragma once

#include <vector>

namespace baton {

struct CoreDivisionOptions {
  std::vector<int> cpus;        // to divide, at least one
  std::vector<int> taken = {};  // those of them that others have for themselves
  int quota = 0;                // as many of them as may be busy at a time; 0: all
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
// evenly goes to the decode workers. Where fewer CPUs are left than there are workers, or than the
// threads asked for, all share all, those taken too, with as many threads as if none were; so they
// do under a quota, since whoever has another on the same machine would pin his threads to the same
// CPUs. REQUIRES: cpus and workers.
std::vector<WorkerCores> DivideCores(const CoreDivisionOptions& options);

}  // namespace baton
