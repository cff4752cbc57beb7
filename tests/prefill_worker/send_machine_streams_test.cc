// One push over several streams.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/prefill_worker/send_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;

class SenderStreamsTest : public SendMachineTest {
 protected:
  // Five messages in flight: 1 and 4, 2 and 5, 3. All are of 1024 bytes but the last, of 704.
  void SendOnThree() {
    Restart(3);
    Do(SendEvent::Begin{});
    Prompt();
    Opened(0, kWindow);
  }
  std::map<int, std::vector<uint64_t>> SentBy() {
    std::map<int, std::vector<uint64_t>> sent;
    for (const auto& data : Taken<SendAction::SendData>()) {
      sent[data.stream].push_back(data.header.sequence_number());
    }
    return sent;
  }
  std::vector<int> Cancelled() {
    std::vector<int> streams;
    for (const auto& cancel : Taken<SendAction::CancelStream>()) streams.push_back(cancel.stream);
    return streams;
  }
};

TEST_F(SenderStreamsTest, OthersJoinOnceTheOpenIsAnsweredWithTheSameKeyAndCapability) {
  Restart(3);
  Do(SendEvent::Begin{});
  ASSERT_EQ(Taken<SendAction::OpenStream>().size(), 1u);
  EXPECT_TRUE(Taken<SendAction::OpenStream>()[0].first.has_open());
  Opened(0, kWindow);
  const auto opened = Taken<SendAction::OpenStream>();
  ASSERT_EQ(opened.size(), 3u);
  for (int stream = 1; stream < 3; ++stream) {
    const auto& open = opened[static_cast<size_t>(stream)];
    EXPECT_EQ(open.stream, stream);
    ASSERT_TRUE(open.first.has_join());
    EXPECT_EQ(open.first.join().key().attempt(), 1u);
    EXPECT_EQ(open.first.join().capability(), "secret");
  }
}

TEST_F(SenderStreamsTest, FewMessagesNeedFewStreams) {
  // 32 bytes a token: 4800 bytes are four full messages, 704 are none.
  for (const auto& [start, streams] : {std::pair{0u, 4u}, {80u, 2u}, {128u, 1u}}) {
    Restart(16);
    Do(SendEvent::Begin{});
    Opened(start, kWindow);
    EXPECT_EQ(Taken<SendAction::OpenStream>().size(), streams) << start;
  }
}

TEST_F(SenderStreamsTest, MessagesAreSpreadAndControlStaysOnStreamZero) {
  SendOnThree();
  const std::map<int, std::vector<uint64_t>> wanted = {{0, {1, 4}}, {1, {2, 5}}, {2, {3}}};
  EXPECT_EQ(SentBy(), wanted);
  for (uint64_t id = 1; id <= 5; ++id) Ack(id, kWindow, static_cast<int>(id + 2) % 3);
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
}

TEST_F(SenderStreamsTest, TheWindowCountsForTheWholePush) {
  Restart(3);
  Do(SendEvent::Begin{});
  Prompt();
  Opened(0, 2048);  // two messages of 1024
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 2u);
  Ack(2, 2048, 1);
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 3u);
}

TEST_F(SenderStreamsTest, ALostJoinedStreamGivesItsMessagesToTheRest) {
  SendOnThree();
  Ack(2, kWindow, 1);
  Do(SendEvent::StreamEnded{absl::UnavailableError("cut"), 1});
  EXPECT_TRUE(Taken<SendAction::Finished>().empty());
  const auto sent = Taken<SendAction::SendData>();
  ASSERT_EQ(sent.size(), 6u) << "5 again, and 2 was acknowledged";
  EXPECT_EQ(sent[5].header.SerializeAsString(), sent[4].header.SerializeAsString());
  EXPECT_EQ(sent[5].stream, 2) << "1024 bytes there, 2048 on stream 0";
  for (const uint64_t id : {1, 3, 4, 5}) Ack(id, kWindow, id % 3 == 1 ? 0 : 2);
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
  PushResponse committed;
  committed.mutable_committed();
  Do(SendEvent::Response{committed});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_TRUE(Taken<SendAction::Finished>()[0].status.ok());
  EXPECT_EQ(Taken<SendAction::Finished>()[0].report.bytes_resent, sent[5].payload_bytes);
  EXPECT_EQ(Taken<SendAction::HalfClose>().size(), 2u);
}

TEST_F(SenderStreamsTest, SlicesOfBothSendsCountUntilTheyAreGone) {
  SendOnThree();
  Do(SendEvent::StreamEnded{absl::UnavailableError("cut"), 1});
  const size_t sends = Taken<SendAction::SendData>().size();
  ASSERT_EQ(sends, 7u);
  Do(SendEvent::Abort{PushAbort::REASON_CANCELLED});
  Do(SendEvent::StreamEnded{absl::CancelledError("done"), 0});
  Do(SendEvent::StreamEnded{absl::CancelledError("done"), 2});
  for (size_t i = 0; i < sends; ++i) {
    EXPECT_TRUE(Taken<SendAction::ReleaseBlocks>().empty());
    EXPECT_FALSE(sender_->gone());
    Do(SendEvent::SlicesReleased{});
  }
  EXPECT_EQ(Taken<SendAction::ReleaseBlocks>().size(), 1u);
  EXPECT_TRUE(sender_->gone());
}

TEST_F(SenderStreamsTest, LosingStreamZeroEndsThePush) {
  SendOnThree();
  Do(SendEvent::StreamEnded{absl::UnavailableError("cut"), 0});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_FALSE(Taken<SendAction::Finished>()[0].status.ok());
  EXPECT_EQ(Cancelled(), (std::vector<int>{1, 2}));
  for (int i = 0; i < 5; ++i) Do(SendEvent::SlicesReleased{});
  EXPECT_FALSE(sender_->gone()) << "two streams are still open";
  Do(SendEvent::StreamEnded{absl::CancelledError("done"), 1});
  Do(SendEvent::StreamEnded{absl::CancelledError("done"), 2});
  EXPECT_TRUE(sender_->gone());
}

TEST_F(SenderStreamsTest, ARefusedJoinMeansOneStreamLess) {
  SendOnThree();
  Refuse(PushRefused::REASON_UNKNOWN_ATTEMPT, 0, 2);
  EXPECT_TRUE(Taken<SendAction::Finished>().empty());
  EXPECT_EQ(Cancelled(), (std::vector<int>{2}));
  EXPECT_EQ(Taken<SendAction::SendData>().size(), 6u);
  const size_t before = SentBy()[2].size();
  Do(SendEvent::StreamEnded{absl::CancelledError("done"), 2});
  Refuse(PushRefused::REASON_CHECKSUM, 1, 0);
  EXPECT_EQ(SentBy()[2].size(), before) << "nothing goes there any more";
  Refuse(PushRefused::REASON_OUT_OF_RANGE, 0, 0);
  EXPECT_EQ(Taken<SendAction::Finished>().size(), 1u) << "on stream 0 it ends the push";
}

TEST_F(SenderStreamsTest, ADamagedMessageMayGoOutAgainOnAnyStream) {
  SendOnThree();
  Ack(1, kWindow, 0);
  Ack(4, kWindow, 0);
  Refuse(PushRefused::REASON_CHECKSUM, 2, 1);
  const auto sent = Taken<SendAction::SendData>();
  EXPECT_EQ(sent.back().header.sequence_number(), 2u);
  EXPECT_EQ(sent.back().stream, 0) << "it carries nothing";
}

TEST_F(SenderStreamsTest, ASilentJoinedStreamIsGivenUpAndASilentStreamZeroEndsThePush) {
  SendOnThree();
  while (Cancelled().empty()) {  // the others answer once: after that only stream 1 is waited for
    Tick(sender_->NextDeadline() - now_);
    for (const int stream : {0, 2}) Ack(static_cast<uint64_t>(stream + 1), kWindow, stream);
  }
  EXPECT_EQ(Cancelled(), (std::vector<int>{1}));
  EXPECT_EQ(now_ - absl::UnixEpoch(), absl::Seconds(10));
  EXPECT_TRUE(Taken<SendAction::Finished>().empty());
  const size_t sent = Taken<SendAction::SendData>().size();
  Tick(sender_->NextDeadline() - now_);
  EXPECT_GE(Taken<SendAction::SendData>().size(), sent);
  while (Count(PushRequest::kAbort) == 0) Tick(sender_->NextDeadline() - now_);
  EXPECT_LE(now_ - absl::UnixEpoch(), absl::Seconds(60));
}

TEST_F(SenderStreamsTest, ABlockThatWasGivenAwayEndsThePushAsFailed) {
  SendOnThree();
  Do(SendEvent::SlicesReleased{.intact = false});
  EXPECT_EQ(Count(PushRequest::kAbort), 1u);
  Do(SendEvent::StreamEnded{absl::OkStatus(), 0});
  ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
  EXPECT_EQ(Taken<SendAction::Finished>()[0].status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Taken<SendAction::Finished>()[0].report.stale_messages, 1u);
}

TEST_F(SenderStreamsTest, EveryStreamIsCancelledAndThenTheChannelsAreDropped) {
  SendOnThree();
  Do(SendEvent::Abort{PushAbort::REASON_CANCELLED});
  while (Taken<SendAction::DropChannel>().empty()) {
    ASSERT_NE(sender_->NextDeadline(), absl::InfiniteFuture());
    Tick(sender_->NextDeadline() - now_);
  }
  EXPECT_LE(now_ - absl::UnixEpoch(), absl::Seconds(3));
  const auto cancelled = Cancelled();
  EXPECT_EQ(std::set<int>(cancelled.begin(), cancelled.end()), (std::set<int>{0, 1, 2}));
}

TEST_F(SenderStreamsTest, SlicesThatDoNotComeBackCostTheConnections) {
  SendOnThree();
  for (const int stream : {0, 1, 2}) {
    Do(SendEvent::StreamEnded{absl::UnavailableError("cut"), stream});
  }
  while (Taken<SendAction::DropChannel>().empty()) {
    ASSERT_NE(sender_->NextDeadline(), absl::InfiniteFuture());
    Tick(sender_->NextDeadline() - now_);
  }
  EXPECT_LE(now_ - absl::UnixEpoch(), absl::Seconds(3));
  EXPECT_TRUE(Taken<SendAction::ReleaseBlocks>().empty());
  EXPECT_EQ(sender_->NextDeadline(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace baton
