// main of the tests that run the kernels on a GPU: without one it says why they did not run, and
// ends with the status that CTest counts as skipped.
#include <gtest/gtest.h>

#include <cstdio>

#include "common/backend/cuda/make_cuda_backend.h"

namespace {
constexpr int kSkipped = 77;
}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && !baton::CudaAvailable()) {
    const auto backend = baton::MakeCudaBackend({});
    std::printf("SKIPPED %d tests of %s: %s\n",
                testing::UnitTest::GetInstance()->total_test_count(), argv[0],
                backend.status().ToString().c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
