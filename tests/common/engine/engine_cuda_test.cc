// The engine on the CUDA backend: its own work around the model is that of engine_test.cc; here it
// must not need the host to read the cache.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "test_device.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

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

// Streams that put off what they are asked for until somebody waits: nothing is read too early, nor
// is memory that a copy still reads filled anew. Most steps are replayed.
TEST(CudaEngine, AStepAheadChoosesAsTheCpuWhateverIsAskedFor) {
  cuda_shim::SetStreamsWait(true);
  const int launches_before = cuda_shim::GraphLaunches();
  {
    EngineHarness cpu(EngineHarness::SmallOptions());
    EngineHarness cuda(CudaOptions());
    EXPECT_EQ(cuda.engine().options().steps_ahead, 1);
    std::mt19937 random(3);
    std::vector<SequenceRequest> requests;
    for (int i = 0; i < 6; ++i) {
      SamplingParams sampling = {.temperature = i % 2 == 0 ? 0.0f : 0.8f,
                                 .top_p = i == 3 ? 0.9f : 1,
                                 .max_tokens = 12,
                                 .min_tokens = i,
                                 .seed = random(),
                                 .ignore_eos = true};
      if (i % 3 != 0) sampling.presence_penalty = 1.5f;
      if (i % 3 == 2) sampling.repetition_penalty = 1.2f;
      if (i > 2) sampling.logprobs = i - 3;
      sampling.logit_bias = {{i, 2.0f}, {100 + i, -5.0f}};
      requests.push_back(LocalRequest(RandomTokens(random, 10 + 7 * i), sampling));
      if (i < 4) continue;
      const std::vector<int32_t> tokens = cpu.RunAlone(requests.back()).token_ids();
      requests.back().sampling.stop_token_ids = {tokens[8]};
    }
    std::vector<SequenceId> ids;
    for (const SequenceRequest& request : requests) ids.push_back(cuda.Submit(request));
    cuda.Run();
    for (size_t i = 0; i < requests.size(); ++i) {
      const EventLog& log = cuda.log(ids[i]);
      const EventLog expected = cpu.RunAlone(requests[i]);
      EXPECT_TRUE(log.finished) << log.failure;
      ASSERT_EQ(log.token_ids(), expected.token_ids()) << i;
      for (size_t k = 0; k < log.tokens.size(); ++k) {
        EXPECT_EQ(log.tokens[k].finish_reason, expected.tokens[k].finish_reason);
        ASSERT_EQ(log.tokens[k].logprobs.has_value(), i > 2);
        if (i < 3) continue;
        EXPECT_NEAR(log.tokens[k].logprobs->logprob, expected.tokens[k].logprobs->logprob, 1e-3f);
        EXPECT_EQ(log.tokens[k].logprobs->top.size(), i - 3);
      }
    }
    cuda.ExpectNothingHeld();
  }
  EXPECT_GT(cuda_shim::GraphLaunches(), launches_before + 4);
  cuda_shim::SetStreamsWait(false);
}

// The host reads no pages there, samples count penalties on the device, and steps that guess are
// not replayed.
TEST(CudaEngine, GuessesChangeNoTokenWithTheDeterministicFlag) {
  cuda_shim::SetStreamsWait(true);
  for (const std::string draft : {"", "tiny-llama-f32.gguf"}) {
    EngineHarness::Options options = CudaOptions();
    options.deterministic = true;
    EngineHarness plain(options);
    options.engine.speculation = draft.empty() ? SpeculationMode::kNgram : SpeculationMode::kDraft;
    options.draft = draft;
    EngineHarness guessing(options);
    std::mt19937 random(6);
    std::vector<SequenceRequest> requests;
    std::vector<SequenceId> ids;
    for (int i = 0; i < 4; ++i) {
      SamplingParams sampling = {.temperature = 0.9f,
                                 .max_tokens = 30,
                                 .seed = random(),
                                 .ignore_eos = true,
                                 .logprobs = 2,
                                 .logit_bias = {{3, 40.0f}, {90, 40.0f}, {200, 40.0f}}};
      if (i % 2 == 1) sampling.frequency_penalty = 0.1f;
      requests.push_back(LocalRequest(RandomTokens(random, 10 + 7 * i), sampling));
      ids.push_back(guessing.Submit(requests.back()));
    }
    guessing.Run();
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_TRUE(guessing.log(ids[i]).finished) << guessing.log(ids[i]).failure;
      ExpectSameTokens(guessing.log(ids[i]).tokens, plain.RunAlone(requests[i]).tokens);
    }
    // A draft model does not know of the bias.
    EXPECT_GE(guessing.engine().Stats().accepted_guesses, draft.empty() ? 11u : 0u);
    EXPECT_GT(guessing.engine().Stats().refused_guesses, 10u);
    guessing.ExpectNothingHeld();
  }
  cuda_shim::SetStreamsWait(false);
}

// Masks are made while the pass runs, so where streams wait, before it has. Their steps are not
// replayed; those of the others, which go on longer, are.
TEST(CudaEngine, HoldsAnswersToTheirGrammarsAsTheCpu) {
  cuda_shim::SetStreamsWait(true);
  const int launches_before = cuda_shim::GraphLaunches();
  {
    EngineHarness::Options options = EngineHarness::SmallOptions();
    options.engine.end_of_generation_ids = TinyEnds();
    EngineHarness cpu(options);
    options.device = "cuda";
    EngineHarness cuda(options);
    std::mt19937 random(7);
    std::vector<SequenceRequest> requests;
    std::vector<SequenceId> ids;
    for (int i = 0; i < 6; ++i) {
      SamplingParams sampling = {
          .temperature = i % 2 == 0 ? 0.0f : 1.0f, .max_tokens = 30, .seed = random()};
      if (i % 3 == 2) sampling.presence_penalty = 1.5f;
      if (i % 3 == 0) sampling.min_tokens = 30;
      requests.push_back(LocalRequest(RandomTokens(random, 10 + 7 * i), sampling));
      if (i != 3) requests.back().grammar = TinyRegex("[a-z]{3,9}(-[0-9]{2}){1,2}");
      requests.back().choices = 1 + i % 3;
      ids.push_back(cuda.Submit(requests.back()));
    }
    cuda.Run();
    for (size_t i = 0; i < requests.size(); ++i) {
      const SequenceId on_cpu = cpu.Submit(requests[i]);
      cpu.Run();
      for (int choice = 0; choice < requests[i].choices; ++choice) {
        EXPECT_TRUE(cuda.log(ids[i], choice).finished) << cuda.log(ids[i], choice).failure;
        EXPECT_EQ(cuda.log(ids[i], choice).token_ids(), cpu.log(on_cpu, choice).token_ids()) << i;
      }
    }
    cuda.ExpectNothingHeld();
  }
  EXPECT_GT(cuda_shim::GraphLaunches(), launches_before);
  cuda_shim::SetStreamsWait(false);
}

// Each goes on in its own copy of the last block, made on the device.
TEST(CudaEngine, ChoicesPartAsOnTheCpu) {
  cuda_shim::SetStreamsWait(true);
  {
    EngineHarness cpu(EngineHarness::SmallOptions());
    EngineHarness cuda(CudaOptions());
    std::mt19937 random(5);
    for (const int length : {1, 39}) {
      SequenceRequest request =
          LocalRequest(RandomTokens(random, length), {.temperature = 0.8f,
                                                      .presence_penalty = 1.5f,
                                                      .max_tokens = 6,
                                                      .seed = random(),
                                                      .ignore_eos = true});
      request.choices = 3;
      const SequenceId on_cuda = cuda.Submit(request);
      const SequenceId on_cpu = cpu.Submit(request);
      cuda.Run();
      cpu.Run();
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(cuda.log(on_cuda, i).finished) << cuda.log(on_cuda, i).failure;
        EXPECT_EQ(cuda.log(on_cuda, i).token_ids(), cpu.log(on_cpu, i).token_ids()) << i;
      }
    }
    cuda.ExpectNothingHeld();
  }
  cuda_shim::SetStreamsWait(false);
}

// Some have to wait for others, or are preempted and computed again in one pass; most steps are
// replayed.
TEST(CudaEngine, IsExactWithTheDeterministicFlagWhateverElseRuns) {
  EngineHarness::Options options = CudaOptions();
  options.model = "tiny-wide-q4_k.gguf";
  options.engine.kv_dtype = KvType::kF16;  // attention on the tensor cores
  options.deterministic = true;
  EngineHarness alone(options);
  options.engine.num_kv_blocks = 12;  // 4 for each at its end
  options.engine.enable_prefix_caching = false;
  EngineHarness tight(options);
  const int launches_before = cuda_shim::GraphLaunches();
  std::mt19937 random(3);
  std::vector<SequenceRequest> requests;
  std::vector<SequenceId> ids;
  for (const int length : {14, 12, 15, 13}) {
    requests.push_back(
        LocalRequest(RandomTokens(random, length),
                     {.max_tokens = 40, .seed = random(), .ignore_eos = true, .logprobs = 2}));
    ids.push_back(tight.Submit(requests.back()));
  }
  tight.Run();
  EXPECT_GT(cuda_shim::GraphLaunches(), launches_before + 20);
  int preempted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    preempted += tight.log(ids[i]).preempted;
    ExpectSameTokens(tight.log(ids[i]).tokens, alone.RunAlone(requests[i]).tokens);
  }
  EXPECT_GT(preempted, 0);
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
