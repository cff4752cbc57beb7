#include "common/worker/worker_metrics.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/worker/kv_memory.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Direction = WorkerMetrics::Direction;

class WorkerMetricsTest : public ::testing::Test {
 protected:
  explicit WorkerMetricsTest(Direction direction = Direction::kSent)
      : role_(direction == Direction::kSent ? "prefill" : "decode"),
        metrics_(role_),
        worker_(
            metrics_, [this] { return stats_; }, direction) {
    metrics_.SetModelName("m");
  }
  void ExpectSample(const std::string& name, const std::string& labels, const std::string& value) {
    EXPECT_THAT(metrics_.Scrape(),
                HasSubstr(absl::StrCat(name, "{", labels, labels.empty() ? "" : ",",
                                       "model_name=\"m\",role=\"", role_, "\"} ", value, "\n")));
  }

  const std::string role_;
  EngineStats stats_;
  Metrics metrics_;
  WorkerMetrics worker_;
};

class ReceiverMetricsTest : public WorkerMetricsTest {
 protected:
  ReceiverMetricsTest() : WorkerMetricsTest(Direction::kReceived) {}
};

TEST_F(ReceiverMetricsTest, BlocksAreCountedByState) {
  stats_.total_blocks = 10;
  stats_.used_blocks = 3;
  stats_.reserved_blocks = 1;
  stats_.free_blocks = 6;
  stats_.cached_blocks = 2;
  ExpectSample("baton_kv_cache_blocks", R"(state="used")", "3");
  ExpectSample("baton_kv_cache_blocks", R"(state="promised")", "1");
  ExpectSample("baton_kv_cache_blocks", R"(state="free")", "4");
  ExpectSample("baton_kv_cache_blocks", R"(state="cached")", "2");
  ExpectSample("baton_kv_cache_usage_ratio", "", "0.4");
}

TEST_F(ReceiverMetricsTest, StepsAreMeasuredByTheirTokens) {
  stats_.steps.Add(3);
  stats_.steps.Add(70);
  ExpectSample("baton_iteration_tokens_count", "", "2");
  ExpectSample("baton_iteration_tokens_sum", "", "73");
  EXPECT_THAT(metrics_.Scrape(), HasSubstr(R"(le="8"} 1)"));
}

TEST_F(ReceiverMetricsTest, TheSizesAreLabelsOfOneSample) {
  const KvLayout layout = {
      .layers = 2, .kv_heads = 1, .head_dim = 64, .block_size = 32, .dtype = KvType::kF16};
  EngineOptions options;
  options.max_model_len = 2048;
  options.max_num_batched_tokens = 256;
  options.max_num_seqs = 8;
  AddConfigMetric(metrics_, options, layout, 10);
  ExpectSample("baton_config_info",
               R"(block_size="32",kv_blocks="10",kv_cache_dtype="f16",max_model_len="2048",)"
               R"(max_num_batched_tokens="256",max_num_seqs="8")",
               "1");
}

TEST_F(ReceiverMetricsTest, TheCachesMemoryIsToldInItsOwnTypeAndInTheOthers) {
  KvLayout layout = {
      .layers = 2, .kv_heads = 1, .head_dim = 64, .block_size = 32, .dtype = KvType::kF16};
  AddKvMemoryMetrics(metrics_, layout, 10);
  ExpectSample("baton_kv_cache_bytes", R"(type="f16")", "163840");
  ExpectSample("baton_kv_cache_bytes_as", R"(type="f16")", "163840");
  ExpectSample("baton_kv_cache_bytes_as", R"(type="f32")", "327680");
  ExpectSample("baton_kv_cache_bytes_as", R"(type="int8")", "87040");
  ExpectSample("baton_kv_cache_bytes_as", R"(type="int4")", "46080");
  EXPECT_EQ(KvMemoryText(layout, 10), "0.2 MB; int8 0.1 MB, int4 0.0 MB");
  EXPECT_EQ(KvMemoryText(layout, 1000), "16.4 MB; int8 8.7 MB, int4 4.6 MB");
  layout.dtype = KvType::kInt4;
  EXPECT_EQ(KvMemoryText(layout, 1000), "4.6 MB") << "no type takes less";
  layout = {.layers = 2, .kv_heads = 1, .head_dim = 80, .block_size = 32, .dtype = KvType::kF16};
  EXPECT_EQ(KvMemoryText(layout, 1000), "20.5 MB; int8 10.8 MB") << "int4 does not take its heads";
}

TEST_F(ReceiverMetricsTest, ADraftModelsMemoryIsToldByItsParts) {
  stats_.draft_used_blocks = 7;
  AddDraftMetrics(metrics_, {.weight_bytes = 1000, .cache_bytes = 200}, [this] { return stats_; });
  ExpectSample("baton_draft_model_bytes", R"(part="weights")", "1000");
  ExpectSample("baton_draft_model_bytes", R"(part="kv_cache")", "200");
  ExpectSample("baton_draft_kv_cache_blocks", R"(state="used")", "7");
}

TEST_F(ReceiverMetricsTest, WhatIsReceivedIsCountedAndMeasured) {
  worker_.TransferBytes(4096);
  worker_.TransferDone({.duration = absl::Milliseconds(20), .bytes = 4096});
  ExpectSample("baton_kv_transfer_bytes_total", R"(direction="received")", "4096");
  ExpectSample("baton_kv_transfer_duration_seconds_sum", "", "0.02");
  ExpectSample("baton_kv_transfer_bytes_sum", "", "4096");
  EXPECT_THAT(metrics_.Scrape(), Not(HasSubstr("exposed")));
}

TEST_F(WorkerMetricsTest, ASenderMeasuresWhatThePrefillDidNotHide) {
  worker_.TransferBytes(5000);
  worker_.BytesResent(1000);
  worker_.TransferDone({.duration = absl::Milliseconds(20),
                        .bytes = 4000,
                        .exposed = absl::Milliseconds(2),
                        .bytes_saved = 700,
                        .messages = 3});
  ExpectSample("baton_kv_transfer_bytes_total", R"(direction="sent")", "5000");
  ExpectSample("baton_kv_transfer_exposed_seconds_sum", "", "0.002");
  ExpectSample("baton_kv_transfer_exposed_seconds_count", "", "1");
  ExpectSample("baton_kv_transfer_resent_bytes_total", "", "1000");
  ExpectSample("baton_kv_transfer_saved_bytes_total", "", "700");
  ExpectSample("baton_kv_transfer_messages_total", "", "3");
}

TEST_F(WorkerMetricsTest, EveryReasonOfFailureIsThereBeforeTheFirstFailure) {
  for (const char* reason : {"mismatch", "damaged", "refused", "lost", "timeout", "internal"}) {
    ExpectSample("baton_kv_transfer_failures_total", absl::StrCat("reason=\"", reason, "\""), "0");
  }
}

TEST_F(WorkerMetricsTest, AFailureIsCountedByItsKindAndACancellationIsNone) {
  worker_.TransferFailed(absl::DataLossError("a CRC"));
  worker_.TransferFailed(absl::UnavailableError("the connection"));
  worker_.TransferFailed(absl::UnavailableError("the connection"));
  worker_.TransferFailed(absl::FailedPreconditionError("another model"));
  worker_.TransferFailed(absl::CancelledError("nobody wants it"));
  ExpectSample("baton_kv_transfer_failures_total", R"(reason="damaged")", "1");
  ExpectSample("baton_kv_transfer_failures_total", R"(reason="lost")", "2");
  ExpectSample("baton_kv_transfer_failures_total", R"(reason="mismatch")", "1");
  ExpectSample("baton_kv_transfer_failures_total", R"(reason="internal")", "0");
}

TEST_F(WorkerMetricsTest, TransfersAreInFlightUntilTheirTokenIsGone) {
  ExpectSample("baton_kv_transfer_inflight", "", "0");
  std::optional<WorkerMetrics::InFlight> first(worker_);
  WorkerMetrics::InFlight second(worker_);
  ExpectSample("baton_kv_transfer_inflight", "", "2");
  WorkerMetrics::InFlight moved = *std::move(first);
  first.reset();  // NOLINT(bugprone-use-after-move): what is left of it counts no more
  ExpectSample("baton_kv_transfer_inflight", "", "2");
  { const WorkerMetrics::InFlight ended = std::move(moved); }
  ExpectSample("baton_kv_transfer_inflight", "", "1");
}

TEST_F(WorkerMetricsTest, TimesOfASequenceThatNeverDecodedHereAreNotZeroes) {
  worker_.SequenceDone(absl::Milliseconds(5), absl::Milliseconds(100), absl::ZeroDuration());
  ExpectSample("baton_request_queue_seconds_sum", R"(stage="prefill")", "0.005");
  ExpectSample("baton_request_prefill_seconds_sum", "", "0.1");
  ExpectSample("baton_request_decode_seconds_count", "", "0");
}

}  // namespace
}  // namespace baton
