#include "common/backend/make_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/backend/cpu/simd/isa.h"
#include "common/backend/cuda/make_cuda_backend.h"

namespace baton {
namespace {

void ExpectRefused(const BackendOptions& options, absl::StatusCode code, const std::string& flag,
                   const std::string& why) {
  const auto backend = MakeBackend(options);
  EXPECT_EQ(backend.status().code(), code) << backend.status();
  EXPECT_THAT(std::string(backend.status().message()),
              testing::AllOf(testing::HasSubstr(flag), testing::HasSubstr(why)));
}

TEST(MakeBackend, GivesACpuWhereCudaIsAbsent) {
  for (const char* device : {"cpu", "auto"}) {
    if (device == std::string("auto") && CudaAvailable()) continue;
    const auto backend = MakeBackend({.device = device, .threads = 3});
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_THAT((*backend)->Description(), testing::HasSubstr("3 threads"));
  }
}

TEST(MakeBackend, GivesTheInstructionSetAskedForOrRefusesItByName) {
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    const BackendOptions options{.device = "cpu", .cpu_isa = CpuIsaName(isa)};
    if (CpuHas(isa)) {
      EXPECT_THAT((*MakeBackend(options))->Description(), testing::HasSubstr(CpuIsaName(isa)));
    } else {
      ExpectRefused(options, absl::StatusCode::kUnimplemented, "--cpu-isa", CpuIsaName(isa));
    }
  }
}

TEST(MakeBackend, NamesTheFlagThatIsWrong) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused({.device = "cuda:x"}, kInvalid, "--device 'cuda:x'", "cuda:N");
  ExpectRefused({.device = "tpu"}, kInvalid, "--device 'tpu'", "cpu, cuda");
  ExpectRefused({.device = "cpu", .cpu_isa = "neon"}, kInvalid, "--cpu-isa 'neon'", "portable");
  ExpectRefused({.device = "cpu", .threads = -1}, kInvalid, "--threads -1", "0 for one per CPU");
  ExpectRefused({.device = "cpu", .threads = 100000}, kInvalid, "--threads", "1024");
}

// The build may have no CUDA, or the machine no GPU: the test holds for both.
TEST(MakeBackend, SaysWhatIsMissingForCudaAndWhatToUseInstead) {
  if (CudaAvailable()) GTEST_SKIP() << "this machine has a GPU";
  for (const char* device : {"cuda", "cuda:1"}) {
    const auto backend = MakeBackend({.device = device});
    ASSERT_FALSE(backend.ok());
    EXPECT_THAT(std::string(backend.status().message()),
                testing::AllOf(testing::StartsWith("--device cuda"),
                               testing::EndsWith("use --device cpu")));
  }
}

}  // namespace
}  // namespace baton
