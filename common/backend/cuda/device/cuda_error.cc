#include "common/backend/cuda/device/cuda_error.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

#include "common/base/log.h"

namespace baton {

void EndAfterCudaError(const std::string& what) {
  LogError("CUDA: {}; this process ends", what);
  CurrentLogger().flush();
  // Nothing is torn down, because other threads may wait for the device for ever.
  std::_Exit(kCudaErrorExitStatus);
}

void CheckCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) [[likely]] {
    return;
  }
  EndAfterCudaError(absl::StrCat(call, " failed: ", cudaGetErrorName(error), " (",
                                 cudaGetErrorString(error), ")"));
}

}  // namespace baton
