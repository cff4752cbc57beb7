#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "tests/prefill_worker/send_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

TEST_F(SendMachineTest, SendsNothingBeforeThePushIsOpened) {
  Do(SendEvent::Begin{});
  Prompt();
  EXPECT_EQ(actions_.size(), 1u);
  EXPECT_EQ(Taken<SendAction::OpenStream>().size(), 1u);
}

TEST_F(SendMachineTest, SendsEachRangeOnceFromTheStartThatTheReceiverNamed) {
  Do(SendEvent::Begin{});
  Prompt();
  Opened(80, 1 << 20);
  std::vector<std::vector<bool>> sent(2, std::vector<bool>(kTokens, false));
  for (const auto& data : Taken<SendAction::SendData>()) {
    EXPECT_LE(data.payload_bytes, 1024u);
    for (uint32_t l = 0; l < data.header.layer_count(); ++l) {
      for (uint32_t t = 0; t < data.header.token_count(); ++t) {
        auto at = sent[data.header.first_layer() + l][data.header.first_token() + t];
        EXPECT_FALSE(at);
        at = true;
      }
    }
  }
  for (int layer = 0; layer < 2; ++layer) {
    for (int token = 0; token < kTokens; ++token) {
      EXPECT_EQ(sent[static_cast<size_t>(layer)][static_cast<size_t>(token)], token >= 80);
    }
  }
}

TEST_F(SendMachineTest, NeverHasMoreUnacknowledgedBytesThanTheWindow) {
  Do(SendEvent::Begin{});
  Prompt();
  Opened(0, 1500);
  uint64_t acked = 0;
  for (int round = 0; round < 20; ++round) {
    uint64_t outstanding = 0;
    const auto sent = Taken<SendAction::SendData>();
    for (size_t i = acked; i < sent.size(); ++i) outstanding += sent[i].payload_bytes;
    EXPECT_LE(outstanding, 1500u);
    if (acked < sent.size()) Ack(++acked, 1500);
  }
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
}

TEST_F(SendMachineTest, CountsTheBytesOfTheWireTypeAndNotOfTheCache) {
  SendConfig config;
  config.layout = {.layers = 2, .kv_heads = 3, .head_dim = 20, .block_size = 16};
  config.token_ids.resize(64);
  config.open.set_token_count(64);
  config.open.set_wire_dtype("int8");
  config.limits.min_payload_bytes = 0;
  sender_.emplace(config);
  Do(SendEvent::Begin{});
  Opened(16, 1 << 20);
  for (const int layer : {0, 1}) Layer(layer, 0, 64);
  constexpr size_t kTokenBytes = 2 * 3 * (20 + 4);
  const auto sent = Taken<SendAction::SendData>();
  ASSERT_EQ(sent.size(), 2u);
  for (const auto& data : sent) EXPECT_EQ(data.payload_bytes, 48 * kTokenBytes);
  Do(SendEvent::Abort{});
  Do(SendEvent::StreamEnded{});
  const auto finished = Taken<SendAction::Finished>();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].report.bytes_sent, 2 * 48 * kTokenBytes);
  EXPECT_EQ(finished[0].report.bytes_saved, 2 * 16 * kTokenBytes);
}

TEST_F(SendMachineTest, EndsWithTheReasonWhyALayerCannotBeSent) {
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Do(SendEvent::Abort{PushAbort::REASON_FAILED, absl::DataLossError("a page changed")});
  Do(SendEvent::StreamEnded{});
  const auto finished = Taken<SendAction::Finished>();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].status, absl::DataLossError("a page changed"));
}

TEST_F(SendMachineTest, LayersOfAChunkShareAMessageWhenTheyAreSmall) {
  SendConfig config;
  config.layout = {.layers = 4, .kv_heads = 1, .head_dim = 4, .block_size = 16};
  config.token_ids.resize(16);
  config.open.set_token_count(16);
  config.open.set_wire_dtype("f16");
  config.limits.min_payload_bytes = 600;  // 256 bytes a layer
  sender_.emplace(config);
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Layer(0, 0, 16);
  Layer(1, 0, 16);
  EXPECT_TRUE(Taken<SendAction::SendData>().empty());
  Layer(2, 0, 16);
  ASSERT_EQ(Taken<SendAction::SendData>().size(), 1u);
  EXPECT_EQ(Taken<SendAction::SendData>()[0].header.layer_count(), 3u);
  Layer(3, 0, 16);  // the last layer ends the wait
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 2u);
}

TEST_F(SendMachineTest, WhatIsFlushedDoesNotWaitForMoreLayersAndWhatFollowsDoes) {
  SendConfig config;
  config.layout = {.layers = 4, .kv_heads = 1, .head_dim = 4, .block_size = 16};
  config.token_ids.resize(32);
  config.open.set_token_count(32);
  config.open.set_wire_dtype("f16");
  config.limits.min_payload_bytes = 600;  // 256 bytes a layer of 16 tokens
  sender_.emplace(config);
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Do(SendEvent::Flush{});
  Layer(0, 0, 16);
  Layer(1, 0, 16);
  EXPECT_TRUE(Taken<SendAction::SendData>().empty()) << "there was nothing to flush";
  Do(SendEvent::Flush{});
  ASSERT_EQ(Taken<SendAction::SendData>().size(), 1u);
  EXPECT_EQ(Taken<SendAction::SendData>()[0].header.layer_count(), 2u);
  Layer(2, 0, 16);
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 1u);
  Layer(3, 0, 16);
  ASSERT_EQ(Taken<SendAction::SendData>().size(), 2u);
  EXPECT_EQ(Taken<SendAction::SendData>()[1].header.layer_count(), 2u);
}

TEST_F(SendMachineTest, CheckpointsAndCommitWaitForTheAcknowledgements) {
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Prompt();
  EXPECT_EQ(Count(PushRequest::kCheckpoint), 0u);
  Ack(2, 1 << 20);
  EXPECT_EQ(Count(PushRequest::kCheckpoint), 0u);
  Ack(1, 1 << 20);
  EXPECT_EQ(Count(PushRequest::kCheckpoint), 1u);
  for (uint64_t i = 3; i <= Taken<SendAction::SendData>().size(); ++i) {
    EXPECT_EQ(Count(PushRequest::kCommit), 0u);
    Ack(i, 1 << 20);
  }
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
  now_ += absl::Milliseconds(5);
  PushResponse committed;
  committed.mutable_committed();
  Do(SendEvent::Response{committed});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_TRUE(Taken<SendAction::Finished>()[0].status.ok());
  EXPECT_EQ(Taken<SendAction::Finished>()[0].report.transfer, absl::Milliseconds(5));
  EXPECT_EQ(Taken<SendAction::Finished>()[0].report.exposed_transfer, absl::Milliseconds(5));
}

TEST_F(SendMachineTest, ExposedTransferBeginsWithTheLastComputedChunkHoweverLateThePushIsOpened) {
  Do(SendEvent::Begin{});
  Layer(0, 0, 64);
  Layer(1, 0, 64);
  Do(SendEvent::ChunkReady{64, now_});
  Layer(0, 64, kTokens);
  Layer(1, 64, kTokens);
  const absl::Time computed = now_;
  now_ += absl::Milliseconds(2);  // until the event is handled
  Do(SendEvent::ChunkReady{kTokens, computed});
  Do(SendEvent::FirstToken{});
  now_ += absl::Milliseconds(10);
  Opened(0, 1 << 20);
  now_ += absl::Milliseconds(3);
  for (uint64_t i = 1; i <= Taken<SendAction::SendData>().size(); ++i) Ack(i, 1 << 20);
  PushResponse committed;
  committed.mutable_committed();
  Do(SendEvent::Response{committed});
  const auto finished = Taken<SendAction::Finished>();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(finished[0].report.committed);
  EXPECT_EQ(finished[0].report.exposed_transfer, absl::Milliseconds(15));
  EXPECT_EQ(finished[0].report.transfer, absl::Milliseconds(15)) << "never less than exposed";
}

TEST_F(SendMachineTest, APushThatEndsWithTheFirstTokenWasNotCommitted) {
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Layer(0, 0, 64);
  Do(SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  Refuse(PushRefused::REASON_ABORTED);
  const auto finished = Taken<SendAction::Finished>();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_TRUE(finished[0].status.ok());
  EXPECT_FALSE(finished[0].report.committed);
}

TEST_F(SendMachineTest, SendsARefusedMessageAgainThreeTimesAndNoMore) {
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Layer(0, 0, 64);
  for (int i = 0; i < 3; ++i) Refuse(PushRefused::REASON_CHECKSUM, 1);
  const auto sent = Taken<SendAction::SendData>();
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[3].header.SerializeAsString(), sent[0].header.SerializeAsString());
  EXPECT_TRUE(Taken<SendAction::Finished>().empty());
  Refuse(PushRefused::REASON_CHECKSUM, 1);
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 4u);
  EXPECT_EQ(Count(PushRequest::kAbort), 1u);
}

TEST_F(SendMachineTest, KeepsTheBlocksUntilTheLastSliceIsGone) {
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Layer(0, 0, 64);
  Layer(1, 0, 64);
  Do(SendEvent::StreamEnded{absl::UnavailableError("cut")});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_EQ(Taken<SendAction::Finished>()[0].status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Taken<SendAction::ReleaseBlocks>().empty());
  Do(SendEvent::SlicesReleased{});
  EXPECT_TRUE(Taken<SendAction::ReleaseBlocks>().empty());
  EXPECT_FALSE(sender_->gone());
  Do(SendEvent::SlicesReleased{});
  EXPECT_EQ(Taken<SendAction::ReleaseBlocks>().size(), 1u);
  EXPECT_TRUE(sender_->gone());
}

TEST_F(SendMachineTest, AnIncompatibleReceiverIsAFailedPrecondition) {
  Do(SendEvent::Begin{});
  Refuse(PushRefused::REASON_MODEL_MISMATCH);
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_EQ(Taken<SendAction::Finished>()[0].status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SendMachineTest, ADecodeWorkerThatTakesNoWorkIsHeardByItsOwnReason) {
  Do(SendEvent::Begin{});
  Do(SendEvent::StreamEnded{WorkerFullStatus("too many pushes", "d", kStageTransfer)});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_EQ(ErrorReason(Taken<SendAction::Finished>()[0].status), kReasonWorkerFull);

  Restart(1);
  Do(SendEvent::Begin{});
  Opened(0, 1 << 20);
  Refuse(PushRefused::REASON_DRAINING);
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_EQ(ErrorReason(Taken<SendAction::Finished>()[0].status), kReasonDraining);
}

TEST_F(SendMachineTest, EveryWaitEnds) {
  // Opening, unacknowledged data, the commit: each wait leads to an abort, a cancel, and a dropped
  // channel.
  for (int stage = 0; stage < 3; ++stage) {
    SendMachineTest::SetUp();
    SendConfig config;
    config.layout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};
    config.token_ids.resize(16);
    config.open.set_token_count(16);
    config.open.set_wire_dtype("f16");
    sender_.emplace(config);
    actions_.clear();
    Do(SendEvent::Begin{});
    if (stage >= 1) {
      Opened(0, 1 << 20);
      Layer(0, 0, 16);
      Do(SendEvent::ChunkReady{16});
      Do(SendEvent::FirstToken{});
    }
    if (stage >= 2) Ack(1, 1 << 20);
    const absl::Time start = now_;
    while (Taken<SendAction::DropChannel>().empty()) {
      ASSERT_NE(sender_->NextDeadline(), absl::InfiniteFuture());
      ASSERT_GT(sender_->NextDeadline(), now_);
      Tick(sender_->NextDeadline() - now_);
    }
    EXPECT_LT(now_ - start, absl::Seconds(30));
    EXPECT_EQ(Taken<SendAction::Finished>().size(), 1u);
    EXPECT_EQ(Taken<SendAction::CancelStream>().size(), 1u);
  }
}

TEST_F(SendMachineTest, AcknowledgementsThatDoNotComeForTenSecondsEndThePush) {
  Do(SendEvent::Begin{});
  Opened(0, kWindow);
  Layer(0, 0, 64);
  Layer(1, 0, 64);
  Do(SendEvent::ChunkReady{64});
  now_ += absl::Seconds(9);
  Ack(1, kWindow);  // the next ten seconds count from here
  const absl::Time answered = now_;
  while (Count(PushRequest::kAbort) == 0) Tick(sender_->NextDeadline() - now_);
  EXPECT_EQ(now_ - answered, absl::Seconds(10));
}

TEST_F(SendMachineTest, APromptThatTakesTenMinutesToComputeGoesOn) {
  Do(SendEvent::Begin{});
  Opened(0, kWindow);
  for (uint64_t chunk = 0; chunk < 2; ++chunk) {
    for (int minute = 0; minute < 10; ++minute) Tick(absl::Minutes(1));
    const int first = static_cast<int>(chunk) * 64;
    Layer(0, first, first + 64);
    Layer(1, first, first + 64);
    for (const uint64_t message : {1, 2}) Ack(2 * chunk + message, kWindow);
    Do(SendEvent::ChunkReady{first + 64});
  }
  EXPECT_EQ(Count(PushRequest::kCheckpoint), 2u);
  EXPECT_EQ(Count(PushRequest::kAbort), 0u);
}

TEST_F(SendMachineTest, PassesSignsOfLifeOnWhileItSendsToAReceiverThatKnowsThem) {
  for (const bool knows : {true, false}) {
    Restart(1);
    Do(SendEvent::Begin{});
    Do(SendEvent::Alive{});
    EXPECT_EQ(Count(PushRequest::kAlive), 0u) << "it is not open yet";
    internal::v1::PushResponse opened;
    opened.mutable_opened()->set_window_bytes(kWindow);
    opened.mutable_opened()->set_takes_signs(knows);
    Do(SendEvent::Response{opened});
    Do(SendEvent::Alive{});
    Do(SendEvent::Alive{});
    EXPECT_EQ(Count(PushRequest::kAlive), knows ? 2u : 0u);
    Do(SendEvent::Abort{PushAbort::REASON_CANCELLED});
    Do(SendEvent::Alive{});
    EXPECT_EQ(Count(PushRequest::kAlive), knows ? 2u : 0u) << "it is over";
  }
}

TEST_F(SendMachineTest, AWindowThatHoldsNoPageEndsThePush) {
  Do(SendEvent::Begin{});
  Opened(0, 100);
  EXPECT_EQ(Count(PushRequest::kAbort), 1u);
}

TEST_F(SendMachineTest, ACancelBeforeThePushBeganHoldsNothing) {
  Do(SendEvent::Abort{PushAbort::REASON_CANCELLED});
  EXPECT_EQ(Taken<SendAction::ReleaseBlocks>().size(), 1u);
  EXPECT_TRUE(sender_->gone());
}

}  // namespace
}  // namespace baton
