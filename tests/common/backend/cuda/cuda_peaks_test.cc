#include "common/backend/cuda/cuda_peaks.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(CudaPeaks, AreMeasuredForEachTypeOfWeights) {
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16, GgmlType::kQ4_0}) {
    const auto peaks = MeasureCudaPeaks(
        {.weights_type = type, .copy_bytes = 1 << 16, .gemm_size = 32, .repetitions = 3});
    ASSERT_TRUE(peaks.ok()) << peaks.status();
    EXPECT_GT(peaks->copy_gb_s, 0);
    EXPECT_GT(peaks->gemm_gflops, 0);
  }
}

}  // namespace
}  // namespace baton
