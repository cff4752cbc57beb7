// The highest speeds that a GPU reaches: the limits that the engine's speed is compared with.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct CudaPeaks {
  double copy_gb_s = 0;    // copy within device memory: bytes read plus bytes written, GB/s
  double gemm_gflops = 0;  // the library's product of large square matrices, GFLOP/s
};

struct CudaPeakOptions {
  // The type of the products' operands; types other than F32 and F16 mean BF16.
  GgmlType weights_type = GgmlType::kBf16;
  size_t copy_bytes = size_t{1} << 30;
  int gemm_size = 8192;  // rows and columns of a matrix
  int repetitions = 20;  // measurements; their median counts
};

// Measures the device that is current on the calling thread (MakeCudaBackend leaves it so). Returns
// the errors of MakeCudaBackend if there is none, and RESOURCE_EXHAUSTED without memory for the
// copy and the matrices.
absl::StatusOr<CudaPeaks> MeasureCudaPeaks(const CudaPeakOptions& options);

}  // namespace baton
