#include "common/backend/cuda/make_cuda_backend.h"

#include "absl/status/status.h"

namespace baton {

bool CudaAvailable() { return false; }

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const MakeCudaOptions& /*options*/) {
  return absl::UnimplementedError("--device cuda: this build has no CUDA; use --device cpu");
}

}  // namespace baton
