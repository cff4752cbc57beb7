// What a sender makes of answers that were damaged on their way, or did not come.
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/worker_status.h"
#include "tests/prefill_worker/send_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SenderAnswersTest : public SendMachineTest {
 protected:
  void SendFive() {
    Do(SendEvent::Begin{});
    Prompt();
    Opened(0, kWindow);
    ASSERT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  }
  std::vector<uint64_t> Sent() {
    std::vector<uint64_t> sent;
    for (const auto& data : Taken<SendAction::SendData>()) {
      sent.push_back(data.header.sequence_number());
    }
    return sent;
  }
};

TEST_F(SenderAnswersTest, AnAcknowledgementOfNothingHasTheOldestMessageOfItsStreamRepeated) {
  SendFive();
  Ack(1, kWindow);
  Ack(900, kWindow);  // was never sent
  EXPECT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 2}));
  Ack(3, kWindow);
  Ack(1, kWindow);  // was acknowledged: 4's in truth
  EXPECT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 2, 4}));
  for (const uint64_t id : {5, 2, 4}) Ack(id, kWindow);
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
}

TEST_F(SenderAnswersTest, AnAcknowledgementOfAnotherMessageIsFoundOutWhenThatOneIsAnswered) {
  SendFive();
  Ack(2, kWindow);  // 1's in truth
  EXPECT_EQ(Sent().size(), 5u) << "it may have been overtaken";
  Ack(2, kWindow);
  EXPECT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 1}));
  for (const uint64_t id : {3, 4, 5}) Ack(id, kWindow);
  EXPECT_EQ(Count(PushRequest::kCommit), 0u);
  Ack(1, kWindow);
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
}

TEST_F(SenderAnswersTest, BothAnswersOfARepeatedMessageAreRight) {
  SendFive();
  Ack(900, kWindow);
  Ack(1, kWindow);
  Ack(1, kWindow);
  EXPECT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 1}));
}

TEST_F(SenderAnswersTest, TheLastAnswerIsMissedInSecondsAndNotAtTheEndOfAllPatience) {
  SendFive();
  for (const uint64_t id : {1, 2, 3, 4}) Ack(id, kWindow);
  Tick(sender_->NextDeadline() - now_);
  EXPECT_LE(now_ - absl::UnixEpoch(), absl::Seconds(4));
  EXPECT_EQ(Sent(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 5}));
  Ack(5, kWindow);
  EXPECT_EQ(Count(PushRequest::kCommit), 1u);
  EXPECT_EQ(Count(PushRequest::kAbort), 0u);
}

TEST_F(SenderAnswersTest, WhatIsRepeatedInVainEndsThePush) {
  SendFive();
  for (int i = 0; i < 20; ++i) Ack(900, kWindow);
  EXPECT_EQ(Sent().size(), 5u + 3 * 5u) << "each three times";
  while (Count(PushRequest::kAbort) == 0) {
    ASSERT_GT(sender_->NextDeadline(), now_);
    Tick(sender_->NextDeadline() - now_);
  }
  EXPECT_LE(now_ - absl::UnixEpoch(), absl::Seconds(20));
}

// The commit may be sent, and answered, while a joined stream's join is still under way; whatever
// comes of the join then, the push ends as its commit did.
TEST_F(SenderAnswersTest, ACommitIsOfItsOwnWhateverBecomesOfAJoinThatIsNotAnswered) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    Restart(3);
    Do(SendEvent::Begin{});
    Prompt();
    Opened(0, kWindow);
    ASSERT_EQ(Taken<SendAction::OpenStream>().size(), 3u);
    // Nothing is heard on stream 2: its message comes again on another.
    bool silent = true;
    const auto disturb = [&] {
      if (!silent || random() % 4 != 0) return;
      silent = false;
      if (random() % 2 == 0) Refuse(PushRefused::REASON_UNKNOWN_ATTEMPT, 0, 2);
      Do(SendEvent::StreamEnded{absl::UnavailableError("cut"), 2});
    };
    while (Count(PushRequest::kCommit) == 0) {
      disturb();
      std::vector<SendAction::SendData> open;
      for (const auto& data : Taken<SendAction::SendData>()) open.push_back(data);
      for (size_t i = 0; i < open.size(); ++i) {
        if (open[i].stream != 2) Ack(open[i].header.sequence_number(), kWindow, open[i].stream);
      }
      if (Count(PushRequest::kCommit) == 0) Tick(sender_->NextDeadline() - now_);
      ASSERT_EQ(Count(PushRequest::kAbort), 0u);
    }
    disturb();
    PushResponse committed;
    committed.mutable_committed();
    Do(SendEvent::Response{committed, 0});
    disturb();
    ASSERT_EQ(Taken<SendAction::Finished>().size(), 1u);
    EXPECT_TRUE(Taken<SendAction::Finished>()[0].status.ok());
    EXPECT_TRUE(Taken<SendAction::Finished>()[0].report.committed);
  }
}

// How a push ended.
class SenderFaultsTest : public SenderAnswersTest {
 protected:
  absl::Status End() {
    const auto finished = Taken<SendAction::Finished>();
    return finished.empty() ? absl::UnknownError("it goes on") : finished.back().status;
  }
  // A prompt with so many hashes that its open fills several packets.
  void BeginLong() {
    SendConfig config;
    config.layout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};
    config.token_ids.resize(16);
    config.open.set_token_count(16);
    config.open.set_wire_dtype("f16");
    for (uint64_t i = 0; i < 400; ++i) config.open.add_page_hashes(~i);
    sender_.emplace(config);
    actions_.clear();
    Do(SendEvent::Begin{});
  }
};

TEST_F(SenderFaultsTest, APushTellsWhetherItsConnectionWasMadeOrBroke) {
  Do(SendEvent::Begin{});
  Do(SendEvent::StreamEnded{absl::UnavailableError("connection refused")});
  EXPECT_EQ(PushFaultOf(End()), kPushUnreachable);

  Restart(1);
  SendFive();
  Ack(1, kWindow);
  now_ += absl::Seconds(5);
  Do(SendEvent::StreamEnded{absl::UnavailableError("Socket closed")});
  EXPECT_EQ(PushFaultOf(End()), kPushBroke);
  EXPECT_THAT(std::string(End().message()), Not(HasSubstr("MTU")));

  Restart(1);
  SendFive();
  Do(SendEvent::StreamEnded{absl::UnavailableError("Socket closed")});
  EXPECT_EQ(PushFaultOf(End()), kPushBroke) << "nothing was lost for long";

  Restart(1);
  SendFive();
  Refuse(PushRefused::REASON_INCOMPLETE);
  EXPECT_EQ(PushFaultOf(End()), kPushRefused);
}

TEST_F(SenderFaultsTest, WhereSmallMessagesPassAndLargeOnesDoNotTheErrorNamesTheMtu) {
  const absl::Status silent = WithErrorInfo(
      absl::DeadlineExceededError("the stream's first message did not come within 2s"),
      {.reason = kReasonSilentStream});
  BeginLong();
  Do(SendEvent::StreamEnded{silent});
  EXPECT_EQ(PushFaultOf(End()), kPushLargePackets);
  EXPECT_THAT(std::string(End().message()),
              AllOf(HasSubstr("did not come within 2s"), HasSubstr("MTU")));

  Restart(1);
  Do(SendEvent::Begin{});
  Do(SendEvent::StreamEnded{silent});
  EXPECT_NE(PushFaultOf(End()), kPushLargePackets) << "its first message was small";

  // The open was answered, and then nothing of the KV came through.
  Restart(1);
  SendFive();
  now_ += absl::Seconds(2);
  Do(SendEvent::StreamEnded{absl::UnavailableError("keepalive watchdog timeout")});
  EXPECT_EQ(PushFaultOf(End()), kPushLargePackets);
  EXPECT_THAT(std::string(End().message()), AllOf(HasSubstr("watchdog"), HasSubstr("MTU")));

  for (const bool acknowledged : {false, true}) {
    Restart(1);
    SendFive();
    if (acknowledged) Ack(1, kWindow);
    while (End().code() == absl::StatusCode::kUnknown) Tick(sender_->NextDeadline() - now_);
    EXPECT_EQ(PushFaultOf(End()), acknowledged ? kPushSilent : kPushLargePackets);
  }
}

}  // namespace
}  // namespace baton
