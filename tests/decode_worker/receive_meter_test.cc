#include "decode_worker/receive_meter.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class ReceiveMeterTest : public testing::Test {
 protected:
  ReceiveMeterTest() { metrics_.SetModelName("m"); }
  // `labels` without those that every sample has.
  void ExpectSample(const std::string& name, const std::string& labels, const std::string& value) {
    EXPECT_THAT(metrics_.Scrape(),
                HasSubstr(absl::StrCat(name, "{", labels, labels.empty() ? "" : ",",
                                       "model_name=\"m\",role=\"decode\"} ", value, "\n")));
  }

  Metrics metrics_{"decode"};
  WorkerMetrics worker_{metrics_, [] { return EngineStats(); },
                        WorkerMetrics::Direction::kReceived};
  const absl::Time begin_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(ReceiveMeterTest, APushIsUnderWayFromItsBeginToItsEnd) {
  ReceiveMeter meter(&worker_);
  ExpectSample("baton_kv_transfer_inflight", "", "0");
  meter.Begin();
  ExpectSample("baton_kv_transfer_inflight", "", "1");
  meter.End();
  meter.End();
  ExpectSample("baton_kv_transfer_inflight", "", "0");
}

TEST_F(ReceiveMeterTest, ACommittedPushHasTheBytesOfAllMessagesAndItsTimeSinceTheFirst) {
  ReceiveMeter meter(&worker_);
  meter.Begin();
  meter.Received(1000, begin_);
  meter.Received(500, begin_ + absl::Milliseconds(20));
  ExpectSample("baton_kv_transfer_bytes_total", R"(direction="received")", "1500");
  ExpectSample("baton_kv_transfer_bytes_count", "", "0");
  meter.Committed(begin_ + absl::Milliseconds(50));
  ExpectSample("baton_kv_transfer_bytes_sum", "", "1500");
  ExpectSample("baton_kv_transfer_duration_seconds_sum", "", "0.05");
}

TEST_F(ReceiveMeterTest, AFailureIsCountedAndIsNoTransfer) {
  ReceiveMeter meter(&worker_);
  meter.Received(1000, begin_);
  meter.Failed(absl::DataLossError("a CRC"));
  ExpectSample("baton_kv_transfer_failures_total", R"(reason="damaged")", "1");
  ExpectSample("baton_kv_transfer_bytes_count", "", "0");
}

TEST(ReceiveMeter, CountsNothingWithoutMetrics) {
  ReceiveMeter meter(nullptr);
  meter.Begin();
  meter.Received(1000, absl::UnixEpoch());
  meter.Committed(absl::UnixEpoch());
  meter.Failed(absl::DataLossError("a CRC"));
  meter.End();
}

}  // namespace
}  // namespace baton
