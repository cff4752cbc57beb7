#include "prefill_worker/prefill_spans.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr absl::Time kBegin = absl::UnixEpoch();

internal::v1::KvDataHeader Header(uint64_t sequence_number, uint32_t first_layer) {
  internal::v1::KvDataHeader header;
  header.set_sequence_number(sequence_number);
  header.set_first_layer(first_layer);
  header.set_layer_count(2);
  header.set_first_token(64);
  header.set_token_count(16);
  return header;
}

TEST(ChunkSpans, EachChunkIsToldWithTheTimeOfItsEnd) {
  ChunkSpans chunks;
  chunks.Add(512, absl::Milliseconds(3));
  chunks.Add(700, absl::Milliseconds(5));
  internal::v1::PrefillFinished finished;
  chunks.Tell(finished);
  ASSERT_EQ(finished.chunks_size(), 2);
  EXPECT_EQ(finished.chunks(0).end_token(), 512u);
  EXPECT_EQ(finished.chunks(0).end_us(), 3000u);
  EXPECT_EQ(finished.chunks(1).end_us(), 5000u);
}

TEST(ChunkSpans, OfTooManyChunksNeighboursAreToldAsOneAndTheLastEndStays) {
  ChunkSpans chunks;
  for (uint32_t i = 1; i <= 1000; ++i) chunks.Add(i * 64, absl::Milliseconds(i));
  internal::v1::PrefillFinished finished;
  chunks.Tell(finished);
  EXPECT_LE(static_cast<size_t>(finished.chunks_size()), kMaxPrefillSpans);
  EXPECT_GT(static_cast<size_t>(finished.chunks_size()), kMaxPrefillSpans / 2);
  uint32_t last = 0;
  for (const internal::v1::ChunkSpan& chunk : finished.chunks()) {
    EXPECT_EQ(chunk.end_us(), chunk.end_token() / 64 * 1000);
    EXPECT_GT(chunk.end_token(), last);
    last = chunk.end_token();
  }
  EXPECT_EQ(last, 64000u);
}

TEST(SentSpans, AMessageLastsFromItsFirstSendingToItsAcknowledgement) {
  SentSpans sent;
  sent.Sent(Header(1, 0), 100, kBegin + absl::Milliseconds(1));
  sent.Sent(Header(2, 2), 50, kBegin + absl::Milliseconds(2));
  sent.Acknowledged(2, kBegin + absl::Milliseconds(3));
  sent.Acknowledged(1, kBegin + absl::Milliseconds(7));
  internal::v1::PrefillFinished finished;
  TellSpans(sent.spans(), kBegin, finished);
  ASSERT_EQ(finished.transfers_size(), 2);
  EXPECT_EQ(finished.transfers(0).begin_us(), 1000u);
  EXPECT_EQ(finished.transfers(0).end_us(), 7000u);
  EXPECT_EQ(finished.transfers(1).first_layer(), 2u);
  EXPECT_EQ(finished.transfers(1).layer_count(), 2u);
  EXPECT_EQ(finished.transfers(1).first_token(), 64u);
  EXPECT_EQ(finished.transfers(1).token_count(), 16u);
  EXPECT_EQ(finished.transfers(1).end_us(), 3000u);
}

TEST(SentSpans, OfTooManyMessagesNeighboursBecomeOneWithoutLosingBytes) {
  SentSpans sent;
  constexpr uint64_t kMessages = 2000;
  for (uint64_t i = 1; i <= kMessages; ++i) {
    sent.Sent(Header(i, static_cast<uint32_t>(i)), 10,
              kBegin + absl::Milliseconds(static_cast<int64_t>(i)));
  }
  for (uint64_t i = 1; i <= kMessages; ++i) {
    sent.Acknowledged(i, kBegin + absl::Seconds(10) + absl::Milliseconds(static_cast<int64_t>(i)));
  }
  EXPECT_LE(sent.spans().size(), kMaxPrefillSpans);
  EXPECT_EQ(sent.spans().size(), 250u) << "eight messages each";
  uint64_t bytes = 0;
  for (const SentSpans::Span& span : sent.spans()) bytes += span.bytes;
  EXPECT_EQ(bytes, 10 * kMessages);
  const SentSpans::Span& second = sent.spans()[1];
  EXPECT_EQ(second.begin, kBegin + absl::Milliseconds(9));
  EXPECT_EQ(second.end, kBegin + absl::Seconds(10) + absl::Milliseconds(16));
  EXPECT_EQ(second.first_layer, 9u);
  EXPECT_EQ(second.end_layer, 18u);
}

}  // namespace
}  // namespace baton
