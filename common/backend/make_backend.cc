#include "common/backend/make_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/backend/cpu/cpu_backend.h"
#include "common/backend/cpu/machine/cpu_set.h"
#include "common/backend/cuda/make_cuda_backend.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int kMaxThreads = 1024;

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(CpuSettings cpu, ResolveCpuSettings(options));
  return std::make_unique<CpuBackend>(cpu.isa, cpu.threads, std::move(cpu.cpus));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(int device, const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(PoolThreads threads, ResolveThreads(options));
  return MakeCudaBackend({.device = device,
                          .deterministic = options.deterministic,
                          .load_threads = std::move(threads)});
}

}  // namespace

absl::StatusOr<PoolThreads> ResolveThreads(const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(std::vector<int> cpus, ParseCpuSet(options.cpu_set));
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("--threads ", options.threads, ": must be 1 to ",
                                                   kMaxThreads, ", or 0 for one per CPU"));
  }
  int threads = options.threads;
  if (threads == 0) threads = cpus.empty() ? AvailableCpus() : static_cast<int>(cpus.size());
  return PoolThreads{.count = threads, .cpus = std::move(cpus)};
}

absl::StatusOr<CpuSettings> ResolveCpuSettings(const BackendOptions& options) {
  BATON_ASSIGN_OR_RETURN(const CpuIsa isa, ParseCpuIsa(options.cpu_isa));
  BATON_ASSIGN_OR_RETURN(PoolThreads threads, ResolveThreads(options));
  return CpuSettings{isa, threads.count, std::move(threads.cpus)};
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options) {
  if (options.device == "cpu") return MakeCpuBackend(options);
  if (options.device == "auto") {
    return CudaAvailable() ? MakeCuda(0, options) : MakeCpuBackend(options);
  }
  absl::string_view rest = options.device;
  int device = 0;
  if (absl::ConsumePrefix(&rest, "cuda") &&
      (rest.empty() ||
       (absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &device) && device >= 0))) {
    return MakeCuda(device, options);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--device '", options.device, "': must be cpu, cuda, cuda:N or auto"));
}

}  // namespace baton
