#include "common/backend/cuda/cuda_peaks.h"

#include "absl/status/status.h"

namespace baton {

absl::StatusOr<CudaPeaks> MeasureCudaPeaks(const CudaPeakOptions& /*options*/) {
  return absl::UnimplementedError("this build has no CUDA");
}

}  // namespace baton
