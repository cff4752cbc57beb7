// What a GPU can do at most: the walls that the engine's speed on it is held against.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct CudaPeaks {
  double copy_gb_s = 0;    // from device memory into it: bytes read and bytes written
  double gemm_gflops = 0;  // of the library's product of large square matrices
};

struct CudaPeakOptions {
  // Of the products' operands; other types than F32 and F16 mean BF16.
  GgmlType weights_type = GgmlType::kBf16;
  size_t copy_bytes = size_t{1} << 30;
  int gemm_size = 8192;  // rows and columns
  int repetitions = 20;  // of which the median counts
};

// Of the device that is current on the calling thread (MakeCudaBackend leaves it so). As
// MakeCudaBackend where there is none; RESOURCE_EXHAUSTED without memory for the copy and the
// matrices.
absl::StatusOr<CudaPeaks> MeasureCudaPeaks(const CudaPeakOptions& options);

}  // namespace baton
