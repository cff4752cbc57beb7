#include "client/doctor/gpu_check.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kGpuGibi = uint64_t{1} << 30;

GpuFacts OneGpu() {
  return {
      .hardware = true,
      .kernel_driver = "550.54.15",
      .driver_cuda = 12040,
      .devices = {
          {.name = "H100", .major = 9, .total_bytes = 80 * kGpuGibi, .free_bytes = 79 * kGpuGibi}}};
}

Finding OfGpu(const GpuFacts& facts, const char* check, int workers = 1) {
  return FindFinding(GpuFindings(facts, workers), check);
}

TEST(GpuFindings, WithoutAGpuAreOneLineThatIsSkipped) {
  const Findings findings = GpuFindings({.error = "there is no libcuda.so.1"}, 2);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kSkipped);
}

TEST(GpuFindings, OfAGoodGpuAreOk) {
  const Findings findings = GpuFindings(OneGpu(), 1);
  EXPECT_EQ(findings.size(), 3u);
  for (const Finding& finding : findings) EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check;
}

TEST(GpuFindings, SayWhichDriverIsNeeded) {
  GpuFacts facts = OneGpu();
  facts.driver_cuda = 11080;
  EXPECT_EQ(OfGpu(facts, "gpu.driver").verdict, Verdict::kFailed);
  EXPECT_THAT(OfGpu(facts, "gpu.driver").found, HasSubstr("CUDA up to 11.8"));
  EXPECT_THAT(OfGpu(facts, "gpu.driver").remedy, HasSubstr("CUDA 12.4 (550 or newer)"));
  facts.driver_cuda = 12020;
  EXPECT_EQ(OfGpu(facts, "gpu.driver").verdict, Verdict::kWarning);
}

TEST(GpuFindings, OfAGpuWithoutADriverFailUnlessTheBuildIsForTheCpu) {
  GpuFacts facts = {.hardware = true, .error = "there is no libcuda.so.1"};
  facts.backend = absl::InvalidArgumentError("found no NVIDIA driver");
  EXPECT_EQ(OfGpu(facts, "gpu.driver").verdict, Verdict::kFailed);
  EXPECT_THAT(OfGpu(facts, "gpu.driver").found, HasSubstr("libcuda"));
  facts.backend = absl::UnimplementedError("no CUDA");
  EXPECT_EQ(OfGpu(facts, "gpu.driver").verdict, Verdict::kWarning);
}

TEST(GpuFindings, SayWhichBuildToTake) {
  GpuFacts facts = OneGpu();
  facts.driver_cuda = 13000;
  facts.backend = absl::UnimplementedError("no CUDA");
  EXPECT_EQ(OfGpu(facts, "gpu.build").verdict, Verdict::kWarning);
  EXPECT_THAT(OfGpu(facts, "gpu.build").remedy, HasSubstr("Toolkit of 12.4 to 13.0"));
  EXPECT_THAT(OfGpu(facts, "gpu.build").remedy, HasSubstr("CUDACXX=NVCC scripts/gpu_bundle.sh"));
  facts.backend = absl::InvalidArgumentError("no kernels for it");
  EXPECT_EQ(OfGpu(facts, "gpu.build").verdict, Verdict::kFailed);
  EXPECT_EQ(OfGpu(facts, "gpu.build").found, "no kernels for it");
}

TEST(GpuFindings, RefuseGpusThatCannotBeUsed) {
  GpuFacts facts = OneGpu();
  facts.devices[0].major = 7;
  EXPECT_EQ(OfGpu(facts, "gpu.device").verdict, Verdict::kFailed);
  facts = OneGpu();
  facts.devices[0].compute_mode = GpuComputeMode::kProhibited;
  EXPECT_THAT(OfGpu(facts, "gpu.device").remedy, HasSubstr("-c DEFAULT"));
  facts = OneGpu();
  facts.devices[0].free_bytes = kGpuGibi;
  EXPECT_EQ(OfGpu(facts, "gpu.device").verdict, Verdict::kWarning) << "somebody else has it";
}

TEST(GpuFindings, WantTheMultiProcessServiceForTwoWorkersOnOneGpu) {
  GpuFacts facts = OneGpu();
  EXPECT_EQ(OfGpu(facts, "gpu.sharing", 2).verdict, Verdict::kWarning);
  facts.devices[0].compute_mode = GpuComputeMode::kExclusive;
  EXPECT_EQ(OfGpu(facts, "gpu.sharing", 2).verdict, Verdict::kFailed);
  facts.mps_runs = true;
  EXPECT_EQ(OfGpu(facts, "gpu.sharing", 2).verdict, Verdict::kOk);
  facts.devices.push_back(facts.devices[0]);
  EXPECT_THAT(OfGpu(facts, "gpu.sharing", 2).check, HasSubstr("no finding")) << "each has its own";
}

TEST(GatherGpuFacts, ReadsTheDriversVersionAndSeesTheMultiProcessService) {
  const std::string root = testing::TempDir() + "/gpu_check_test";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root + "/proc/driver/nvidia");
  std::filesystem::create_directories(root + "/proc/12");
  std::ofstream(root + "/proc/driver/nvidia/version")
      << "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC version:  "
         "12\n";
  std::ofstream(root + "/proc/12/comm") << "nvidia-cuda-mps\n";
  const GpuFacts facts = GatherGpuFacts(root);
  EXPECT_TRUE(facts.hardware);
  EXPECT_EQ(facts.kernel_driver, "550.54.15");
  EXPECT_TRUE(facts.mps_runs);
}

}  // namespace
}  // namespace baton
