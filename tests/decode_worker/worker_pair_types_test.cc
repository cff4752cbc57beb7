// The hand-off between real workers whose KV caches are of different shapes.
#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/backend/cpu/simd/isa.h"
#include "common/base/kv_type_name.h"
#include "common/handoff/kv_wire_choice.h"
#include "common/rpc/status.h"
#include "tests/decode_worker/worker_pair.h"
#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

using internal::v1::SequenceSpec;
using ::testing::HasSubstr;

constexpr int kPromptTokens = 141;  // the last page is not full
constexpr int kOutputTokens = 12;

std::vector<int32_t> Prompt(int length = kPromptTokens) {
  std::mt19937 random(11);
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  return ids;
}

SequenceSpec Spec(uint64_t id) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = kOutputTokens;
  sampling.ignore_eos = true;
  sampling.logprobs = 1;
  return MakeSpec(Prompt(), sampling, id);
}

// When a push is refused, nothing but its deadline ends the decode call.
SequenceSpec Refused() {
  SequenceSpec spec = Spec(1);
  spec.set_remaining_ms(300);
  return spec;
}

constexpr absl::string_view kUsualModel = "tiny-llama-f32.gguf";
constexpr absl::string_view kWideModel = "tiny-wide-q5_0.gguf";  // its heads have groups of int4

TestWorker::Options Kv(KvType dtype, const std::string& wire = "auto", int block_size = 16,
                       absl::string_view model = kUsualModel) {
  TestWorker::Options options;
  options.model = std::string(model);
  if (model == kWideModel) {  // a message holds a page at least
    options.sender_limits.max_payload_bytes = 16384;
    options.receiver_limits.window_bytes = 65536;
  }
  options.kv_dtype = dtype;
  options.kv_wire_dtype = wire;
  options.block_size = block_size;
  return options;
}

void ExpectSameTokens(const HandoffResult& a, const HandoffResult& b) {
  ASSERT_EQ(a.tokens.size(), static_cast<size_t>(kOutputTokens));
  ASSERT_EQ(b.tokens.size(), a.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[i].SerializeAsString()) << "token " << i;
  }
}

// bf16 keeps 8 bits: so far the logits of a tiny model go.
constexpr float kFar = 0.2F;

// The largest difference of a log-probability while the tokens are the same, of which the first two
// must be: the second is the first that comes from received KV.
float LogprobDistance(const HandoffResult& a, const HandoffResult& b) {
  float most = 0;
  for (size_t i = 0; i < std::min(a.tokens.size(), b.tokens.size()); ++i) {
    if (a.tokens[i].token().token_id() != b.tokens[i].token().token_id()) {
      EXPECT_GT(i, 1u);
      break;
    }
    most = std::max(most, std::fabs(a.tokens[i].token().logprob() - b.tokens[i].token().logprob()));
  }
  return most;
}

uint64_t BytesOf(TestWorker& worker, KvType wire) {
  const KvLayout& layout = worker.engine().cache().layout();
  return KvWireFormat(layout, wire).row_bytes() * 2 * static_cast<uint64_t>(layout.layers) *
         kPromptTokens;
}

struct Types {
  KvType prefill;
  std::string wire;  // the prefill worker's flag
  KvType decode;
};

TEST(WorkerPairTypes, AnotherKvTypeIsConvertedAndTheAnswerSaysThatItIsNotExact) {
  for (const Types& types :
       {Types{KvType::kF32, "auto", KvType::kF16}, Types{KvType::kF16, "auto", KvType::kF32},
        Types{KvType::kBf16, "auto", KvType::kF16}, Types{KvType::kF16, "auto", KvType::kBf16},
        Types{KvType::kF32, "bf16", KvType::kF16}, Types{KvType::kInt8, "auto", KvType::kF16},
        Types{KvType::kF16, "auto", KvType::kInt8}, Types{KvType::kFp8, "auto", KvType::kF32},
        Types{KvType::kBf16, "auto", KvType::kFp8}, Types{KvType::kInt8, "auto", KvType::kFp8},
        Types{KvType::kInt8, "f16", KvType::kInt8}, Types{KvType::kInt4, "auto", KvType::kF16},
        Types{KvType::kF16, "auto", KvType::kInt4}, Types{KvType::kInt4, "auto", KvType::kInt8},
        Types{KvType::kFp8, "auto", KvType::kInt4}, Types{KvType::kInt4, "f16", KvType::kInt4}}) {
    const KvType wire = types.wire == "auto" ? types.prefill : *KvTypeFromName(types.wire);
    const bool int4 = types.prefill == KvType::kInt4 || types.decode == KvType::kInt4;
    const absl::string_view model = int4 ? kWideModel : kUsualModel;
    TestWorker prefill(Kv(types.prefill, types.wire, 32, model));
    TestWorker decode(Kv(types.decode, "auto", 16, model));
    SCOPED_TRACE(prefill.shape().dtype() + " over " + KvTypeName(wire) + " into " +
                 decode.shape().dtype());
    const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    ASSERT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
    EXPECT_FALSE(result.finished.exact());
    EXPECT_EQ(result.prefill_finished.wire_dtype(), KvTypeName(wire));
    EXPECT_EQ(result.prefill_finished.bytes_sent(), BytesOf(prefill, wire));
    EXPECT_EQ(result.prefill_finished.bytes_resent(), 0u);
    ASSERT_EQ(result.tokens.size(), static_cast<size_t>(kOutputTokens));
    TestWorker local(Kv(KvType::kF32, "auto", 16, model));
    EXPECT_LT(LogprobDistance(result, RunLocally(local, Spec(1))), kFar);
    EXPECT_TRUE(prefill.ComesToRest());
    EXPECT_TRUE(decode.ComesToRest());
  }
}

// A wider float type, or a quantised cache's own.
TEST(WorkerPairTypes, AWireTypeThatLosesNothingBetweenEqualCachesKeepsEveryBit) {
  for (const auto& [dtype, wire] :
       {std::pair(KvType::kF16, KvType::kF32), std::pair(KvType::kBf16, KvType::kF32),
        std::pair(KvType::kInt8, KvType::kInt8), std::pair(KvType::kFp8, KvType::kFp8),
        std::pair(KvType::kInt4, KvType::kInt4)}) {
    SCOPED_TRACE(KvTypeName(wire));
    const absl::string_view model = dtype == KvType::kInt4 ? kWideModel : kUsualModel;
    TestWorker prefill(Kv(dtype, wire == dtype ? "auto" : "f32", 48, model));
    TestWorker decode(Kv(dtype, "auto", 16, model));
    TestWorker local(Kv(dtype, "auto", 16, model));
    const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    EXPECT_TRUE(result.finished.exact());
    EXPECT_EQ(result.prefill_finished.wire_dtype(), KvTypeName(wire));
    EXPECT_EQ(result.prefill_finished.bytes_sent(), BytesOf(prefill, wire));
    ExpectSameTokens(result, RunLocally(local, Spec(1)));
    // Exact, so it serves others: all whole blocks of the prompt that are not its last token's.
    ExpectSameTokens(result, RunLocally(decode, Spec(2)));
    EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 128u);
    // And goes on to a third worker, with the CRCs of the pages as they were stored.
    TestWorker third(Kv(dtype, "auto", 16, model));
    const HandoffResult passed_on = RunHandoff(decode, third, Spec(3));
    EXPECT_EQ(passed_on.prefill_started.cached_tokens(), 128u);
    EXPECT_EQ(passed_on.prefill_finished.bytes_resent(), 0u);
    ExpectSameTokens(passed_on, result);
  }
}

TEST(WorkerPairTypes, Int8HalvesTheBytesAndIsNotExact) {
  for (const KvType decode_dtype : {KvType::kF16, KvType::kF32}) {
    TestWorker prefill(Kv(KvType::kF16, "int8", 32));
    TestWorker decode(Kv(decode_dtype, "int8"));
    TestWorker local(Kv(KvType::kF16));
    const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    EXPECT_FALSE(result.finished.exact());
    EXPECT_EQ(result.prefill_finished.wire_dtype(), "int8");
    const KvLayout& layout = prefill.engine().cache().layout();
    EXPECT_EQ(result.prefill_finished.bytes_sent(),
              2u * kPromptTokens * static_cast<uint64_t>(layout.layers * layout.kv_heads) *
                  static_cast<uint64_t>(layout.head_dim + 4));
    EXPECT_LT(LogprobDistance(result, RunLocally(local, Spec(1))), kFar);
    EXPECT_TRUE(decode.ComesToRest());
  }
}

TEST(WorkerPairTypes, Int4TakesNineThirtySecondsOfTheBytesAndIsNotExact) {
  TestWorker prefill(Kv(KvType::kF16, "int4", 32, kWideModel));
  TestWorker decode(Kv(KvType::kF32, "int4", 16, kWideModel));
  TestWorker local(Kv(KvType::kF16, "auto", 16, kWideModel));
  const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
  ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  EXPECT_FALSE(result.finished.exact());
  EXPECT_EQ(result.prefill_finished.wire_dtype(), "int4");
  EXPECT_EQ(result.prefill_finished.bytes_sent(), BytesOf(prefill, KvType::kF16) * 9 / 32);
  EXPECT_LT(LogprobDistance(result, RunLocally(local, Spec(1))), kFar);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTypes, ALossyCopyNeverAnswersAnExactRequest) {
  TestWorker prefill(Kv(KvType::kF16, "int8"));
  TestWorker decode(Kv(KvType::kF16, "int8"));
  TestWorker local(Kv(KvType::kF16));
  ASSERT_TRUE(RunHandoff(prefill, decode, Spec(1)).decode_status.ok());
  const HandoffResult exact = RunLocally(decode, Spec(2));
  EXPECT_TRUE(exact.finished.exact());
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 0u);
  ExpectSameTokens(exact, RunLocally(local, Spec(2)));
}

// Nor does what a float cache was made of codes for.
TEST(WorkerPairTypes, AQuantisedSendersKvNeverAnswersAnExactRequest) {
  TestWorker prefill(Kv(KvType::kFp8));
  TestWorker decode(Kv(KvType::kF16));
  const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
  ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  EXPECT_FALSE(result.finished.exact());
  const HandoffResult exact = RunLocally(decode, Spec(2));
  EXPECT_TRUE(exact.finished.exact());
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 0u);
}

TEST(WorkerPairTypes, Int8IsRefusedWhereTheDecodeWorkerDoesNotConsent) {
  TestWorker prefill(Kv(KvType::kF16, "int8"));
  TestWorker decode(Kv(KvType::kF16));
  const HandoffResult result = RunHandoff(prefill, decode, Refused());
  EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(result.prefill_status.error_message(), HasSubstr("sends KV as int8"));
  EXPECT_THAT(result.prefill_status.error_message(), HasSubstr("accepts only f16, f32, bf16"));
  EXPECT_FALSE(result.decode_status.ok());
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTypes, AStrictWorkerOfEitherKindRefusesAnotherKvTypeByName) {
  TestWorker::Options strict = Kv(KvType::kF16);
  strict.strict_kv_dtype = true;
  {
    TestWorker prefill(strict);
    TestWorker decode(Kv(KvType::kBf16));
    const HandoffResult result = RunHandoff(prefill, decode, Refused());
    EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(result.prefill_status.error_message(), HasSubstr("is f16"));
    EXPECT_THAT(result.prefill_status.error_message(), HasSubstr("worker's bf16"));
    EXPECT_TRUE(decode.ComesToRest());
  }
  {
    TestWorker prefill(Kv(KvType::kInt8));
    TestWorker decode(strict);
    const HandoffResult result = RunHandoff(prefill, decode, Refused());
    EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_THAT(result.prefill_status.error_message(), HasSubstr("sends KV as int8"));
    EXPECT_TRUE(decode.ComesToRest());
  }
  {
    // The wire type would fit; what it was before would not.
    TestWorker prefill(Kv(KvType::kF32, "f16"));
    TestWorker decode(strict);
    const HandoffResult result = RunHandoff(prefill, decode, Refused());
    EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    for (const char* part :
         {"REASON_SHAPE", "shape.dtype is f32", "KV is f16", "--strict-kv-dtype"}) {
      EXPECT_THAT(result.prefill_status.error_message(), HasSubstr(part));
      if (part != std::string("REASON_SHAPE")) {
        EXPECT_THAT(result.decode_status.error_message(), HasSubstr(part));
      }
    }
    EXPECT_TRUE(prefill.ComesToRest());
    EXPECT_TRUE(decode.ComesToRest());
  }
  TestWorker prefill(strict);
  TestWorker decode(strict);
  EXPECT_TRUE(RunHandoff(prefill, decode, Spec(1)).finished.exact());
}

TEST(WorkerPairTypes, BlocksThreadsAndInstructionSetsMayAllDifferWithoutABit) {
  TestWorker::Options one = Kv(KvType::kF16, "auto", 48);
  one.threads = 3;
  one.cpu_isa = CpuIsaName(InstructionSets().back());
  one.num_kv_blocks = 7;
  TestWorker::Options other = Kv(KvType::kF16);
  other.cpu_isa = "portable";
  other.num_kv_blocks = 40;
  TestWorker local(Kv(KvType::kF16, "auto", 32));
  const HandoffResult expected = RunLocally(local, Spec(1));
  for (const bool swapped : {false, true}) {
    TestWorker prefill(swapped ? other : one);
    TestWorker decode(swapped ? one : other);
    const HandoffResult result = RunHandoff(prefill, decode, Spec(1));
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    EXPECT_TRUE(result.finished.exact());
    ExpectSameTokens(result, expected);
  }
}

}  // namespace
}  // namespace baton
