#include "common/backend/cuda/make_cuda_backend.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "tests/common/backend/cuda/cuda_backend_fixture.h"

namespace baton {
namespace {

using cuda_shim::Machine;
using cuda_shim::SetMachine;

class MakeCudaBackend : public testing::Test {
 protected:
  MakeCudaBackend() { unsetenv("CUDA_VISIBLE_DEVICES"); }
  ~MakeCudaBackend() override { SetMachine({}); }

  // Checks that `device` is refused on `machine` with all of `words`, and that auto does without
  // it.
  void ExpectRefused(const Machine& machine, int device, const std::vector<std::string>& words) {
    SetMachine(machine);
    const auto backend = baton::MakeCudaBackend({.device = device});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument) << backend.status();
    for (const std::string& word : words) {
      EXPECT_THAT(std::string(backend.status().message()), testing::HasSubstr(word));
    }
    EXPECT_THAT(std::string(backend.status().message()), testing::EndsWith("or use --device cpu"));
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left for the next check to find";
  }
};

TEST_F(MakeCudaBackend, GivesADeviceThatItDescribes) {
  EXPECT_TRUE(CudaAvailable());
  const auto backend = baton::MakeCudaBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->Description(), "cuda:0 fibers, compute capability 9.0, 4.0 GiB");
}

TEST_F(MakeCudaBackend, HasTheThreadsThatLayOutWeightsUntilTheFirstPass) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto backend = baton::MakeCudaBackend({.load_threads = {.count = 3}});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto before = threads();
  const std::vector<uint8_t> file(64);
  for (const char* name : {"a.weight", "b.weight"}) {
    EXPECT_TRUE((*backend)->LoadWeight({name, GgmlType::kF32, {4, 4}, file}).ok());
    EXPECT_EQ(threads(), before + 2);
  }
  const int32_t table[1] = {};
  Batch batch;
  batch.sequences = {{.row_count = 1, .block_table = table, .table_entries = 1}};
  (*backend)->BeginPass({.batch = &batch});
  // A thread that was joined may still be listed for a moment.
  for (const absl::Time end = SteadyNow() + absl::Seconds(10);
       threads() != before && SteadyNow() < end;) {
  }
  EXPECT_EQ(threads(), before);
}

TEST_F(MakeCudaBackend, MultipliesByItsOwnKernelsWhereThereIsNoCublasLt) {
  SetMachine({.has_library = false});
  BackendSide cuda("cuda");
  EXPECT_THAT(cuda.backend().Description(), testing::EndsWith(", without cuBLASLt"));
  BackendSide cpu("cpu");
  constexpr int kInRows = 70, kColumns = 256, kOutputs = 24;
  std::mt19937 random(3);
  const std::vector<float> in = RandomFloats(random, size_t{kInRows} * kColumns);
  const std::vector<float> zeros(size_t{kInRows} * kOutputs);
  for (const auto& [type, tolerance] :
       {std::pair{GgmlType::kF32, 2e-5}, {GgmlType::kF16, 2e-5}, {GgmlType::kBf16, 3e-3}}) {
    SCOPED_TRACE(GgmlTypeName(type));
    const FileMatrix weight(random, type, kOutputs, kColumns);
    const auto product = [&](BackendSide& side) {
      const Tensor out = side.Put(zeros, kInRows);
      const std::vector<Backend::ProductOutput> outputs = {{side.Load(weight.tensor), out}};
      side.backend().Product(side.Put(in, kInRows), outputs);
      return side.Get(out);
    };
    ExpectNear(product(cuda), product(cpu), tolerance);
  }
}

TEST_F(MakeCudaBackend, SaysThatTheDriverIsMissing) {
  ExpectRefused({.driver_version = 0, .count_error = cudaErrorInsufficientDriver}, 0,
                {"--device cuda:0", "no NVIDIA driver", "install one for CUDA 13.0"});
  EXPECT_FALSE(CudaAvailable());
}

TEST_F(MakeCudaBackend, SaysThatTheDriverIsTooOldAndWhichBuildItRuns) {
  ExpectRefused({.driver_version = 12080, .count_error = cudaErrorInsufficientDriver}, 0,
                {"for CUDA 12.8 and this build for 13.0", "update the driver, or take a build",
                 "a CUDA Toolkit of 12.4 to 12.8 (CUDACXX=NVCC scripts/gpu_bundle.sh)"});
  ExpectRefused({.driver_version = 12040, .count_error = cudaErrorInsufficientDriver}, 0,
                {"a CUDA Toolkit of 12.4 (CUDACXX"});
  EXPECT_FALSE(CudaAvailable());
}

TEST_F(MakeCudaBackend, SaysWhichDriverTheOldestBuildNeedsWhereThisOneRunsNone) {
  ExpectRefused({.driver_version = 12020, .count_error = cudaErrorInsufficientDriver}, 0,
                {"for CUDA 12.2 and this build for 13.0", "update the driver to one for CUDA 13.0",
                 "or to 550 or newer for a build made with CUDA Toolkit 12.4"});
}

TEST_F(MakeCudaBackend, SaysThatThereIsNoGpuAndWhatHidesIt) {
  ExpectRefused({.count_error = cudaErrorNoDevice}, 0, {"finds no GPU", "nvidia-smi"});
  setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  ExpectRefused({.count_error = cudaErrorNoDevice}, 0, {"CUDA_VISIBLE_DEVICES='-1'"});
  EXPECT_FALSE(CudaAvailable());
}

TEST_F(MakeCudaBackend, NamesAnErrorThatItDoesNotKnow) {
  ExpectRefused({.count_error = cudaErrorNotReady}, 0, {"cudaErrorNotReady"});
}

TEST_F(MakeCudaBackend, SaysWhichDevicesThereAre) {
  ExpectRefused({}, 3, {"--device cuda:3", "1 GPU;", "use cuda:0,"});
  ExpectRefused({.devices = 2}, 2, {"2 GPUs", "use cuda:0 to cuda:1"});
}

TEST_F(MakeCudaBackend, RefusesADeviceThatIsTooOldByItsCapability) {
  ExpectRefused({.major = 7, .minor = 5}, 0, {"fibers has compute capability 7.5", "8.0 or newer"});
  EXPECT_FALSE(CudaAvailable());
}

TEST_F(MakeCudaBackend, RefusesADeviceThatTheBuildHasNoCodeFor) {
  ExpectRefused({.major = 12, .has_code = false}, 0,
                {"cudaErrorNoKernelImageForDevice", "BATON_CUDA_ARCHITECTURES=120"});
}

}  // namespace
}  // namespace baton
