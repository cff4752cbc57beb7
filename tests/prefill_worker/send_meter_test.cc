#include "prefill_worker/send_meter.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

internal::v1::KvDataHeader Message(uint64_t sequence_number) {
  internal::v1::KvDataHeader header;
  header.set_sequence_number(sequence_number);
  return header;
}

TEST(SendMeter, ExposesTheTransferAfterTheLastChunk) {
  SendMeter meter;
  meter.Sent(Message(1), 100, kStart + absl::Seconds(1));
  meter.Sent(Message(2), 50, kStart + absl::Seconds(2));
  meter.SentAgain(50);
  meter.AllComputed(kStart + absl::Seconds(3));
  const SendReport report = meter.Report(/*committed=*/true, kStart + absl::Seconds(5));
  EXPECT_EQ(report.transfer, absl::Seconds(4));
  EXPECT_EQ(report.exposed_transfer, absl::Seconds(2));
  EXPECT_EQ(report.bytes_sent, 150u);
  EXPECT_EQ(report.bytes_resent, 50u);
  EXPECT_EQ(report.messages, 2u);
  EXPECT_EQ(report.transfer_began, kStart + absl::Seconds(1));
  EXPECT_EQ(report.spans.size(), 2u);
}

TEST(SendMeter, CountsFromTheLastChunkWhereAllWasComputedBeforeTheFirstByte) {
  SendMeter meter;
  meter.AllComputed(kStart + absl::Seconds(1));
  meter.Sent(Message(1), 100, kStart + absl::Seconds(3));
  EXPECT_EQ(meter.Report(/*committed=*/true, kStart + absl::Seconds(5)).transfer, absl::Seconds(4));
}

}  // namespace
}  // namespace baton
