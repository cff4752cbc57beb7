// The hand-off between real workers on the CUDA backend: its kernels and copies, on the CPU.
#include <random>

#include "gtest/gtest.h"

#include "common/base/kv_type_name.h"
#include "tests/decode_worker/worker_pair.h"
#include "tests/support/cuda_shim/streams.h"

namespace baton {
namespace {

internal::v1::SequenceSpec Spec(int length, uint64_t id) {
  std::mt19937 random(static_cast<uint32_t>(length));
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 4;
  sampling.ignore_eos = true;
  return MakeSpec(ids, sampling, id);
}

TestWorker::Options On(const std::string& device, int block_size) {
  TestWorker::Options options;
  options.device = device;
  options.block_size = block_size;
  options.kv_dtype = KvType::kF32;
  return options;
}

std::vector<uint32_t> Tokens(const HandoffResult& result) {
  EXPECT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  return result.token_ids();
}

// Whether streams put off what they are asked for: copies end late then.
class WorkerPairCuda : public testing::TestWithParam<bool> {
 protected:
  WorkerPairCuda() { cuda_shim::SetStreamsWait(GetParam()); }
  ~WorkerPairCuda() override { cuda_shim::SetStreamsWait(false); }
};
INSTANTIATE_TEST_SUITE_P(StreamsWait, WorkerPairCuda, testing::Bool());

TEST_P(WorkerPairCuda, GivesTheTokensOfOneEngineAlone) {
  TestWorker prefill(On("cuda", 32));
  TestWorker decode(On("cuda", 16));
  TestWorker alone(On("cuda", 16));
  TestWorker cpu(On("cpu", 16));
  uint64_t id = 1;
  for (const int length : {3, 100}) {
    const HandoffResult result = RunHandoff(prefill, decode, Spec(length, id++));
    EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
    EXPECT_TRUE(result.committed);
    EXPECT_EQ(result.prefill_finished.bytes_resent(), 0u);
    const std::vector<uint32_t> tokens = Tokens(result);
    EXPECT_EQ(tokens.size(), 4u);
    EXPECT_EQ(tokens, Tokens(RunLocally(alone, Spec(length, id++))));
    // The other backend, on either side.
    EXPECT_EQ(tokens, Tokens(RunHandoff(cpu, decode, Spec(length, id++))));
    const HandoffResult again = RunHandoff(prefill, cpu, Spec(length, id++));
    EXPECT_EQ(tokens, Tokens(again));
    EXPECT_EQ(again.prefill_started.cached_tokens(), length / 32 * 32u) << "staged once more";
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

// Codes and scales are staged and copied as they are, into blocks of another size.
TEST_P(WorkerPairCuda, HandsQuantisedKvOverUnchanged) {
  uint64_t id = 100;
  for (const KvType dtype : {KvType::kInt8, KvType::kFp8, KvType::kInt4}) {
    TestWorker::Options options = On("cuda", 32);
    options.kv_dtype = dtype;
    if (dtype == KvType::kInt4) options.model = "tiny-wide-q4_k.gguf";  // heads of whole groups
    TestWorker prefill(options);
    options.block_size = 16;
    TestWorker decode(options);
    TestWorker alone(options);
    const HandoffResult result = RunHandoff(prefill, decode, Spec(100, id++));
    EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
    EXPECT_TRUE(result.committed);
    EXPECT_EQ(result.prefill_finished.wire_dtype(), KvTypeName(dtype));
    EXPECT_EQ(Tokens(result), Tokens(RunLocally(alone, Spec(100, id++))));
    EXPECT_TRUE(prefill.ComesToRest());
    EXPECT_TRUE(decode.ComesToRest());
  }
}

// A row's bits depend there on how many rows a step has, so guesses may change them.
TEST_P(WorkerPairCuda, AGuessedAnswerIsExactWithTheDeterministicFlagAlone) {
  uint64_t id = 200;
  for (const bool deterministic : {false, true}) {
    TestWorker::Options options = On("cuda", 16);
    options.deterministic = deterministic;
    options.speculation = SpeculationMode::kNgram;
    TestWorker prefill(options);
    TestWorker decode(options);
    internal::v1::SequenceSpec spec = Spec(20, id++);
    // An output of two tokens is full of n-grams that came before.
    spec.mutable_sampling()->set_max_tokens(30);
    for (const uint32_t token : {3u, 90u})
      (*spec.mutable_sampling()->mutable_logit_bias())[token] = 40;
    for (const bool local : {false, true}) {
      spec.mutable_key()->set_request_id_high(id++);
      const HandoffResult result =
          local ? RunLocally(decode, spec) : RunHandoff(prefill, decode, spec);
      EXPECT_EQ(Tokens(result).size(), 30u);
      EXPECT_GT(result.accepted_guesses, 10u);
      EXPECT_EQ(result.finished.exact(), deterministic) << (local ? "local" : "handed off");
    }
  }
}

}  // namespace
}  // namespace baton
