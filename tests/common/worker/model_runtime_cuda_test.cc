// Tests how a runtime divides a GPU's memory. The GPU is that of the shim, as small as a test
// needs.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/backend/cuda/device/cuda_memory.h"
#include "common/worker/model_runtime.h"
#include "test_device.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kDeviceBytes = 24 * kMib;

ModelRuntimeOptions SmallOptions() {
  ModelRuntimeOptions options;
  options.model = std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-f16.gguf";
  options.backend.device = "cuda";
  options.backend.threads = 1;
  options.engine.block_size = 16;
  options.engine.max_num_seqs = 3;
  options.engine.max_num_batched_tokens = 64;
  return options;
}

class ModelRuntimeOnCuda : public testing::Test {
 protected:
  ModelRuntimeOnCuda() { cuda_shim::SetMachine({.device_bytes = kDeviceBytes}); }
  ~ModelRuntimeOnCuda() override { cuda_shim::SetMachine({}); }

  static std::string ErrorOf(const ModelRuntimeOptions& options) {
    const absl::Status status = LoadModelRuntime(options).status();
    EXPECT_EQ(AllocatedDeviceBytes(), 0u);
    return std::string(status.message());
  }
};

// Submits prompts of these lengths together, which have a common beginning, and steps to their end.
void Serve(Engine& engine, const std::vector<int>& lengths, int max_tokens) {
  int finished = 0;
  for (const int length : lengths) {
    SequenceRequest request;
    for (int i = 0; i < length; ++i) request.token_ids.push_back(i * 7 % 200 + 20);
    request.prompt_length = length;
    request.sampling = {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
    request.on_event = [&](const SequenceEvent& event) {
      finished += std::holds_alternative<SequenceFinished>(event);
    };
    EXPECT_TRUE(engine.Submit(engine.NextId(), TestSequences::Trust(std::move(request))).ok());
  }
  while (engine.Step()) {
  }
  EXPECT_EQ(finished, static_cast<int>(lengths.size()));
}

TEST_F(ModelRuntimeOnCuda, GivesTheCacheWhatTheShareLeavesAndStaysWithinIt) {
  for (const double utilization : {0.4, 0.9}) {
    ModelRuntimeOptions options = SmallOptions();
    options.memory.gpu_utilization = utilization;
    const auto runtime = LoadModelRuntime(options);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    const size_t block_bytes = (*runtime)->engine->cache().layout().block_bytes();
    const double share = utilization * static_cast<double>(kDeviceBytes);
    EXPECT_LE(static_cast<double>(AllocatedDeviceBytes()), share);
    EXPECT_GT(static_cast<double>(AllocatedDeviceBytes() + block_bytes), share);
  }
  EXPECT_EQ(AllocatedDeviceBytes(), 0u);
}

// The prompts need chunks of the most rows, then the longest sequences possible, all at once.
TEST_F(ModelRuntimeOnCuda, TakesNoMoreOfTheDeviceOnceItHasStarted) {
  ModelRuntimeOptions options = SmallOptions();
  options.engine.max_model_len = 272;
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const size_t taken = AllocatedDeviceBytes();
  for (const std::vector<int>& lengths : {std::vector<int>{257, 3, 1}, {270, 269, 258}, {2}}) {
    Serve(*(*runtime)->engine, lengths, 2);
    EXPECT_EQ(AllocatedDeviceBytes(), taken) << lengths.size() << " prompts";
  }
}

// Short and long sequences, alone and together.
TEST_F(ModelRuntimeOnCuda, RecordsAllDecodesBeforeItsFirstRequest) {
  ModelRuntimeOptions options = SmallOptions();
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const int before = cuda_shim::GraphsCaptured();
  (*runtime)->engine->RecordSteps();
  const int captured = cuda_shim::GraphsCaptured();
  EXPECT_EQ(captured, before + 6) << "of 1, 2 and 4 rows, of up to 256 and up to 512 tokens";
  const int launched = cuda_shim::GraphLaunches();
  const size_t taken = AllocatedDeviceBytes();
  for (const std::vector<int>& lengths : {std::vector<int>{300}, {250, 1, 30}}) {
    Serve(*(*runtime)->engine, lengths, 8);
  }
  EXPECT_EQ(AllocatedDeviceBytes(), taken);
  EXPECT_GE(cuda_shim::GraphLaunches(), launched + 2 * 7);
  EXPECT_EQ(cuda_shim::GraphsCaptured(), captured);
}

TEST_F(ModelRuntimeOnCuda, EndsBeforeItsFirstRequestWhereNoRecordingFits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the backend has threads
  const auto runtime = LoadModelRuntime(SmallOptions());
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_EXIT(
      {
        cuda_shim::SetMachine({.graphs_fit = false, .device_bytes = kDeviceBytes});
        (*runtime)->engine->RecordSteps();
      },
      testing::ExitedWithCode(70), "no device memory .* lower --gpu-memory-utilization");
}

TEST_F(ModelRuntimeOnCuda, TakesTheFlagsWordForTheCache) {
  ModelRuntimeOptions options = SmallOptions();
  options.memory.gpu_utilization = 0.01;  // ignored, since the number of blocks is given
  options.memory.num_kv_blocks = 30;
  const auto runtime = LoadModelRuntime(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  EXPECT_EQ((*runtime)->engine->Stats().total_blocks, 30);
}

TEST_F(ModelRuntimeOnCuda, SaysWhatDoesNotFit) {
  ModelRuntimeOptions options = SmallOptions();
  options.memory.num_kv_blocks = 100000;
  EXPECT_THAT(ErrorOf(options), HasSubstr("--num-kv-blocks"));
  options = SmallOptions();
  options.engine.max_num_batched_tokens = 1 << 20;
  EXPECT_THAT(ErrorOf(options), AllOf(HasSubstr("does not fit"), HasSubstr("MiB of device memory"),
                                      HasSubstr("--max-num-batched-tokens")));
  cuda_shim::SetMachine({.device_bytes = 200 << 10});
  EXPECT_THAT(ErrorOf(SmallOptions()),
              AllOf(HasSubstr("its weights need"), HasSubstr("--gpu-memory-utilization")));
}

TEST_F(ModelRuntimeOnCuda, LeavesToOthersWhatTheyTook) {
  void* theirs = nullptr;  // cudaMalloc bypasses our accounting, as another process does
  ASSERT_EQ(cudaMalloc(&theirs, 6 * kMib), cudaSuccess);
  ModelRuntimeOptions options = SmallOptions();
  options.memory.gpu_utilization = 0.7;
  EXPECT_TRUE(LoadModelRuntime(options).ok());
  options.memory.gpu_utilization = 0.9;
  EXPECT_THAT(ErrorOf(options), HasSubstr("lower it to 0.75"));
  EXPECT_EQ(cudaFree(theirs), cudaSuccess);
}

}  // namespace
}  // namespace baton
