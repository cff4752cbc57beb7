// Makes the backend that the flags ask for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/backend/cpu/simd/isa.h"

namespace baton {

struct BackendOptions {
  // cpu, cuda, cuda:N, or auto: cuda where this build and this machine have it, otherwise cpu.
  std::string device = "auto";
  // Threads that compute, or with CUDA copy weights while they are loaded, the calling one
  // included; 0: one for each CPU it may run on.
  int threads = 0;
  // A list such as "0,2-5". Thread i stays on the list's i-th CPU; empty: threads are free.
  std::string cpu_set = "";
  // CPU: auto, avx512, avx2 or portable. The results have the same bits on each.
  std::string cpu_isa = "auto";
  // CUDA: the bits of a row depend on that row alone, as on the CPU.
  bool deterministic = false;
};

// The threads that the options ask for. INVALID_ARGUMENT names the flag.
absl::StatusOr<PoolThreads> ResolveThreads(const BackendOptions& options);

// The settings of the CPU backend that the options ask for.
struct CpuSettings {
  CpuIsa isa;
  int threads;            // at least 1
  std::vector<int> cpus;  // CPUs that threads are pinned to, as in ThreadPool; empty: none
};
// Ignores `device`. Returns the errors of MakeBackend.
absl::StatusOr<CpuSettings> ResolveCpuSettings(const BackendOptions& options);

// INVALID_ARGUMENT names the flag and its values; UNIMPLEMENTED says what this build or this CPU
// lacks.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

}  // namespace baton
