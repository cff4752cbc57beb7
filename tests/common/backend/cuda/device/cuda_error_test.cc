#include "common/backend/cuda/device/cuda_error.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(CheckCuda, LetsSuccessPass) { CheckCuda(cudaSuccess, "cudaMalloc"); }

TEST(CheckCudaDeathTest, EndsTheProcessWithTheCallAndTheErrorsName) {
  EXPECT_EXIT(CheckCuda(cudaErrorInvalidValue, "cudaMemcpyAsync"),
              testing::ExitedWithCode(kCudaErrorExitStatus),
              "CUDA: cudaMemcpyAsync failed: cudaErrorInvalidValue");
}

}  // namespace
}  // namespace baton
