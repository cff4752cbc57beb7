// The engine on the CUDA backend: its own work around the model is that of engine_test.cc; here it
// must not need the host to read the cache.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

SamplingParams Greedy(int max_tokens) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
}

EngineHarness::Options CudaOptions() {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.device = "cuda";
  return options;
}

std::vector<SequenceRequest> RandomRequests() {
  std::mt19937 random(1);
  std::vector<SequenceRequest> requests;
  for (const int length : {1, 40, 90, 3}) {
    requests.push_back(LocalRequest(RandomTokens(random, length), Greedy(4)));
  }
  return requests;
}

TEST(CudaEngine, ServesTheTokensOfTheCpuToAllAtOnce) {
  EngineHarness cpu(EngineHarness::SmallOptions());
  EngineHarness cuda(CudaOptions());
  const std::vector<SequenceRequest> requests = RandomRequests();
  std::vector<SequenceId> ids;
  for (const SequenceRequest& request : requests) ids.push_back(cuda.Submit(request));
  cuda.Run();
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(cuda.log(ids[i]).finished) << cuda.log(ids[i]).failure;
    EXPECT_EQ(cuda.log(ids[i]).token_ids(), cpu.RunAlone(requests[i]).token_ids()) << i;
  }
  cuda.ExpectNothingHeld();
}

TEST(CudaEngine, ContinuesFromASharedPrefix) {
  EngineHarness cuda(CudaOptions());
  std::mt19937 random(2);
  const SequenceRequest request = LocalRequest(RandomTokens(random, 100), Greedy(4));
  const std::vector<int32_t> first = cuda.RunAlone(request).token_ids();
  EXPECT_EQ(cuda.RunAlone(request).token_ids(), first);
  EXPECT_EQ(cuda.engine().Stats().prompt_tokens_cached, 96u);
}

}  // namespace
}  // namespace baton
