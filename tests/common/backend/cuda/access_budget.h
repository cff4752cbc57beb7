// The figures of tests/gpu/access_budget.txt: what launches of the kernels cost in memory accesses
// (tests/support/cuda_shim/access_counter.h).
#pragma once

#include <string>
#include <vector>

#include "tests/support/cuda_shim/access_counter.h"

namespace baton {

struct MeasuredLaunch {
  std::string what;    // the operation and its shape
  std::string kernel;  // its name, without template arguments
  cuda_shim::KernelCounts counts;
};

// Runs `operation`, and adds the launches that it makes.
template <class Operation>
void Measure(const std::string& what, const Operation& operation,
             std::vector<MeasuredLaunch>& launches) {
  const cuda_shim::AccessCounts counts;
  operation();
  for (const cuda_shim::KernelCounts& kernel : counts.kernels()) {
    launches.push_back({what, "", kernel});
  }
}

// Finds the kernels' names.
void NameKernels(std::vector<MeasuredLaunch>& launches);

// A kind of access, as a column of the table.
struct AccessColumn {
  const char* name;
  cuda_shim::MemorySpace space;
  cuda_shim::AccessKind kind;
};
inline constexpr AccessColumn kAccessColumns[] = {
    {"device read", cuda_shim::MemorySpace::kDevice, cuda_shim::AccessKind::kRead},
    {"device write", cuda_shim::MemorySpace::kDevice, cuda_shim::AccessKind::kWrite},
    {"shared read", cuda_shim::MemorySpace::kShared, cuda_shim::AccessKind::kRead},
    {"shared write", cuda_shim::MemorySpace::kShared, cuda_shim::AccessKind::kWrite},
};

// The whole table, with its explanation.
std::string TableOf(const std::vector<MeasuredLaunch>& launches);

// The instructions that cost more than the fewest, one a line, with their places in the sources.
std::string WastefulInstructions(const MeasuredLaunch& launch);

}  // namespace baton
