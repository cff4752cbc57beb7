// What an engine refuses, and by which name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/engine/engine.h"
#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(EngineRefusals, RefusesWhatNeedsMoreBlocksThanThereAre) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.num_kv_blocks = 10;
  options.engine.max_model_len = 500;
  EngineHarness harness(options);
  const SequenceRequest fits = LocalRequest(std::vector<int32_t>(20, 1), Greedy(5));
  const SequenceRequest long_prompt = LocalRequest(std::vector<int32_t>(161, 1), Greedy(5));
  const SequenceRequest long_output = LocalRequest(std::vector<int32_t>(20, 1), Greedy(142));
  const auto submit = [&](const SequenceRequest& request) {
    return TestSequences::Check(request, harness.engine().limits()).status();
  };
  EXPECT_TRUE(submit(fits).ok());
  for (const SequenceRequest& request : {long_prompt, long_output}) {
    const absl::Status status = submit(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("token_ids"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("--num-kv-blocks"));
  }
}

TEST(EngineRefusals, AFullWaitingLineRefusesAndServesAgainOnceItMoves) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.max_waiting = 2;
  EngineHarness harness(options);
  const SequenceRequest request = LocalRequest({1, 2, 3}, Greedy(2));
  harness.Submit(request);
  harness.Submit(request);
  EXPECT_EQ(harness.engine().Stats().waiting_sequences, 2);
  const absl::Status status =
      harness.engine().Submit(harness.engine().NextId(), TestSequences::Trust(request));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  harness.Run();
  harness.RunAlone(request);
  // A sequence that is released while it waits makes room, too.
  for (int i = 0; i < 5; ++i) {
    const SequenceId id = harness.Submit(request);
    harness.engine().Release(id);
    harness.engine().Step();
    EXPECT_TRUE(harness.log(id).released);
    EXPECT_FALSE(harness.log(id).admitted);
  }
  harness.ExpectNothingHeld();
}

TEST(EngineRefusals, CreateRefusesOptionsByTheirFlag) {
  const auto create = [](EngineOptions engine_options) {
    BackendOptions backend_options;
    backend_options.device = "cpu";
    auto backend = MakeBackend(backend_options);
    const auto file = GgufFile::Open(std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-f32.gguf");
    auto model = Transformer::Load(*file, **backend, [](double) {});
    return Engine::Create(*std::move(model), **backend, engine_options).status();
  };
  const EngineOptions good = EngineHarness::SmallOptions().engine;
  const auto expect = [&](EngineOptions bad, const std::string& flag) {
    EXPECT_THAT(std::string(create(bad).message()), HasSubstr(flag));
  };
  EngineOptions bad = good;
  bad.block_size = 24;
  expect(bad, "--block-size");
  bad = good;
  bad.num_kv_blocks = 0;
  expect(bad, "--num-kv-blocks");
  bad = good;
  bad.max_model_len = 513;
  expect(bad, "--max-model-len");
  bad = good;
  bad.max_num_seqs = 0;
  expect(bad, "--max-num-seqs");
  bad = good;
  bad.max_num_batched_tokens = 63;
  expect(bad, "--max-num-batched-tokens");
}

}  // namespace

}  // namespace baton
