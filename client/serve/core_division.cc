#include "client/serve/core_division.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

namespace {

// Divides `cpus` CPUs into numbers of threads, one element for each worker.
std::vector<WorkerCores> DivideThreads(int cpus, const CoreDivisionOptions& options) {
  const int workers = options.prefill_workers + options.decode_workers;
  std::vector<WorkerCores> division(static_cast<size_t>(workers));
  const int even = options.threads > 0 ? options.threads : std::max(1, cpus / workers);
  for (WorkerCores& cores : division) cores.threads = even;
  if (options.threads > 0 || options.decode_workers == 0) return division;
  for (int rest = cpus - even * workers; rest > 0; --rest) {
    const int worker = options.prefill_workers + rest % options.decode_workers;
    ++division[static_cast<size_t>(worker)].threads;
  }
  return division;
}

}  // namespace

std::vector<WorkerCores> DivideCores(const CoreDivisionOptions& options) {
  const int workers = options.prefill_workers + options.decode_workers;
  const int all_cpus = static_cast<int>(options.cpus.size());
  const int cpus = options.quota > 0 ? std::min(options.quota, all_cpus) : all_cpus;
  BATON_CHECK(workers > 0 && cpus > 0, "there must be CPUs to divide, and workers to use them");
  std::vector<int> left = options.cpus;
  std::erase_if(left, [&](int cpu) {
    return std::find(options.taken.begin(), options.taken.end(), cpu) != options.taken.end();
  });
  const int needed = workers * std::max(1, options.threads);
  if (cpus < all_cpus || static_cast<int>(left.size()) < needed) {
    return DivideThreads(cpus, options);
  }
  std::vector<WorkerCores> division = DivideThreads(static_cast<int>(left.size()), options);
  auto next = left.begin();
  for (WorkerCores& cores : division) {
    cores.cpus.assign(next, next + cores.threads);
    next += cores.threads;
  }
  return division;
}

}  // namespace baton
