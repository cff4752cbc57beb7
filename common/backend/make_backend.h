// Makes the backend that the flags ask for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cpu/isa.h"

namespace baton {

struct BackendOptions {
  std::string device =
      "auto";  // cpu, cuda, cuda:N, or auto: cuda where this build and machine have it, else cpu
  int threads = 0;  // CPU: threads that compute, the caller included; 0: one per CPU it may run on
  std::string cpu_set =
      "";  // CPU: "0,2-5": thread i stays on the list's i-th CPU; empty: not pinned
  std::string cpu_isa = "auto";  // CPU: auto, avx512, avx2 or portable; the same bits on each
  bool deterministic = false;    // CUDA: a row's bits depend on it alone, as on the CPU
};

// What the CPU backend makes of the options.
struct CpuSettings {
  CpuIsa isa;
  int threads;            // at least 1
  std::vector<int> cpus;  // as in ThreadPool
};
// Errors as MakeBackend's. Ignores `device`.
absl::StatusOr<CpuSettings> ResolveCpuSettings(const BackendOptions& options);

// INVALID_ARGUMENT names the flag and its values; UNIMPLEMENTED says what this build or this CPU
// lacks.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options);

}  // namespace baton
