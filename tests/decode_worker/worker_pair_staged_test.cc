// The hand-off between real workers of which one or both keep K and V where the host does not reach
// them. (The tests of the pair without that run once more on such workers: CMakeLists.txt.)
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/status.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::SequenceSpec;
using ::testing::HasSubstr;

std::vector<int32_t> Prompt(int length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  return ids;
}

SequenceSpec Spec(int length, uint64_t id) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 6;
  sampling.ignore_eos = true;
  sampling.logprobs = 1;
  return MakeSpec(Prompt(length, static_cast<uint32_t>(id)), sampling, id);
}

TestWorker::Options On(const std::string& device, int block_size = 16) {
  TestWorker::Options options;
  options.device = device;
  options.block_size = block_size;
  options.max_num_batched_tokens = 128;
  return options;
}

// With one slot of a page everything waits for everything.
TestWorker::Options WithOneSlot(TestWorker::Options options) {
  TestWorker sample(options);
  const KvLayout& layout = sample.engine().cache().layout();
  options.staging_bytes = layout.bytes_per_token() / static_cast<size_t>(layout.layers) * 16;
  return options;
}

void ExpectSameTokens(const HandoffResult& a, const HandoffResult& b) {
  ASSERT_TRUE(a.decode_status.ok()) << a.decode_status.error_message();
  ASSERT_TRUE(a.prefill_status.ok()) << a.prefill_status.error_message();
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[i].SerializeAsString()) << "token " << i;
  }
}

void ExpectTheTokensOfOneWorker(const TestWorker::Options& on_prefill,
                                const TestWorker::Options& on_decode) {
  TestWorker prefill(on_prefill);
  TestWorker decode(on_decode);
  TestWorker local(On("cpu"));
  std::vector<SequenceSpec> specs;
  for (const int length : {1, 16, 31, 64, 65, 130, 200})
    specs.push_back(Spec(length, specs.size() + 1));
  std::vector<HandoffResult> results(specs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = RunHandoff(prefill, decode, specs[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(results[i].prefill_finished.bytes_resent(), 0u);
    ExpectSameTokens(results[i], RunLocally(local, specs[i]));
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairStaged, EitherSideOrBothGiveTheTokensOfOneWorkerAlone) {
  ExpectTheTokensOfOneWorker(On("late", 32), On("late", 48));
  ExpectTheTokensOfOneWorker(On("late", 48), On("cpu", 16));
  ExpectTheTokensOfOneWorker(On("cpu", 16), On("late", 32));
}

TEST(WorkerPairStaged, OneSlotOfStagingForAllIsEnough) {
  ExpectTheTokensOfOneWorker(WithOneSlot(On("late", 32)), WithOneSlot(On("late", 48)));
}

TEST(WorkerPairStaged, ThePushesThreadsAloneAreEnough) {
  TestWorker::Options options = On("late", 32);
  options.copy_helpers = 0;
  ExpectTheTokensOfOneWorker(options, options);
}

TEST(WorkerPairStaged, MessagesThatWaitForMoreLayersDoNotWaitForRoom) {
  TestWorker::Options options = WithOneSlot(On("late", 32));
  options.staging_bytes *= 3;
  options.sender_limits.min_payload_bytes = size_t{1} << 20;
  options.sender_limits.max_payload_bytes = size_t{2} << 20;
  options.receiver_limits.window_bytes = uint64_t{4} << 20;
  ExpectTheTokensOfOneWorker(options, options);
}

TEST(WorkerPairStaged, EveryWireTypeIsMadeFromWhatIsStaged) {
  for (const std::string wire : {"f32", "bf16", "int8"}) {
    TestWorker::Options options = On("late", 32);
    options.kv_wire_dtype = wire;
    TestWorker prefill(options);
    TestWorker decode(options);
    options.device = "cpu";
    TestWorker host_prefill(options);
    TestWorker host_decode(options);
    const SequenceSpec spec = Spec(141, 1);
    ExpectSameTokens(RunHandoff(prefill, decode, spec),
                     RunHandoff(host_prefill, host_decode, spec));
  }
}

TEST(WorkerPairStaged, APageThatChangedSinceItWasStagedIsNotSent) {
  TestWorker prefill(On("late", 32));
  TestWorker decode(On("cpu"));
  TestWorker other(On("cpu"));
  const SequenceSpec first = Spec(120, 1);
  EXPECT_TRUE(RunHandoff(prefill, decode, first).prefill_status.ok());
  ASSERT_TRUE(prefill.ComesToRest());
  SequenceSpec second = first;
  second.mutable_key()->set_request_id_high(2);
  EXPECT_TRUE(RunHandoff(prefill, other, second).prefill_status.ok()) << "it is held unchanged";
  ASSERT_TRUE(prefill.ComesToRest());

  // A byte of every block's second layer: where the device's memory is anyway.
  KvCache& cache = prefill.engine().cache();
  for (int32_t block = 0; block < cache.block_count(); ++block) {
    cache.Block(block)[cache.layout().RowOffset(1, KvLayout::kValues, 3)] ^= 1;
  }
  TestWorker third(On("cpu"));
  second.mutable_key()->set_request_id_high(3);
  second.set_remaining_ms(1500);
  const HandoffResult changed = RunHandoff(prefill, third, second);
  EXPECT_EQ(changed.prefill_started.cached_tokens(), 96u);
  EXPECT_EQ(changed.prefill_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(changed.prefill_status.error_message(),
              HasSubstr("KV of layer 1, tokens 0 to 15: the bytes in the cache are not those"));
  EXPECT_FALSE(changed.committed);
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(third.ComesToRest());
}

}  // namespace
}  // namespace baton
