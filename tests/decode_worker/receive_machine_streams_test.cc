// One push over several streams.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushRefused;
using internal::v1::PushRequest;
using State = ReceiveMachine::State;

constexpr PushStreamId kJoined = 8;
constexpr PushStreamId kStranger = 9;

class ReceiverStreamsTest : public ReceiveMachineTest {
 protected:
  bool Ended(PushStreamId stream) const {
    const auto ends = Taken<ReceiveAction::EndStream>();
    return std::any_of(ends.begin(), ends.end(),
                       [stream](const auto& end) { return end.stream == stream; });
  }
  std::vector<PushRefused::Reason> RefusalsOn(PushStreamId stream) const {
    std::vector<PushRefused::Reason> reasons;
    for (const auto& send : Taken<ReceiveAction::Send>()) {
      if (send.stream == stream && send.message.has_refused()) {
        reasons.push_back(send.message.refused().reason());
      }
    }
    return reasons;
  }
  void FinishCopy(const ReceiveAction::Copy& copy) {
    Do(CopyPayload(copy, messages_.at(copy.message_id), target_));
  }
};

TEST_F(ReceiverStreamsTest, AcksGoOnTheStreamThatCarriedTheMessageAndTheCommitOnTheFirst) {
  Receive();
  Join(kJoined);
  Data(Header(0, 1, 0, kTokens, 1), kStream);
  Data(Header(1, 1, 0, 32, 2), kJoined);
  Data(Header(1, 1, 32, kTokens, 3), kJoined);
  FinishCopies();
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1}));
  EXPECT_EQ(AcksOn(kJoined), (std::vector<uint64_t>{2, 3}));
  Commit(CommitMessage());
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_TRUE(Taken<ReceiveAction::Send>().back().message.has_committed());
  EXPECT_EQ(Taken<ReceiveAction::Send>().back().stream, kStream);
  EXPECT_TRUE(Ended(kStream) && Ended(kJoined));
  EXPECT_TRUE(HoldsTheSource());
}

TEST_F(ReceiverStreamsTest, AJoinThatProvesNothingIsTurnedAwayByNameAndHurtsNobody) {
  Receive();
  PushRequest join = JoinMessage();
  join.mutable_join()->set_capability("0123456789abcdeF");
  Do(ReceiveEvent::ControlReceived{kStranger, join});
  join = JoinMessage();
  join.mutable_join()->mutable_key()->set_attempt(3);
  Do(ReceiveEvent::ControlReceived{kStranger, join});
  EXPECT_EQ(RefusalsOn(kStranger),
            (std::vector{PushRefused::REASON_CAPABILITY, PushRefused::REASON_UNKNOWN_ATTEMPT}));
  EXPECT_TRUE(Ended(kStranger));
  Data(Header(0, 1, 0, 32, 1), kStranger);
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  EXPECT_EQ(Taken<ReceiveAction::Drop>().size(), 1u);
  Do(ReceiveEvent::Malformed{kStranger, "noise"});
  Do(ReceiveEvent::ControlReceived{kStranger, CommitMessage()});
  Do(ReceiveEvent::StreamLost{kStranger});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  EXPECT_TRUE(Taken<ReceiveAction::Failed>().empty());
}

TEST_F(ReceiverStreamsTest, TheSecretIsAskedForBeforeAnythingElse) {
  // Whatever the state, a join without it learns nothing of the state.
  for (const State state : {State::kReserved, State::kOpen, State::kReceiving, State::kCommitted}) {
    Restart();
    if (state != State::kReserved) Open();
    if (state == State::kReceiving || state == State::kCommitted) Do(ReceiveEvent::Granted{0});
    if (state == State::kCommitted) {
      Data(Header(0, 2, 0, kTokens, 1));
      FinishCopies();
      Commit(CommitMessage());
    }
    ASSERT_EQ(receiver_->state(), state);
    PushRequest join = JoinMessage();
    join.mutable_join()->set_capability("0123456789abcdeF");
    Do(ReceiveEvent::ControlReceived{kStranger, join});
    EXPECT_EQ(RefusalsOn(kStranger), (std::vector{PushRefused::REASON_CAPABILITY}));
  }
}

TEST_F(ReceiverStreamsTest, AStreamJoinsBetweenTheAnsweredOpenAndTheCommitOnly) {
  Join(kJoined);
  EXPECT_EQ(RefusalsOn(kJoined), (std::vector{PushRefused::REASON_UNKNOWN_ATTEMPT}));
  Open();
  Join(kJoined);
  EXPECT_EQ(RefusalsOn(kJoined).size(), 2u);
  Do(ReceiveEvent::Granted{0});
  Join(kJoined);
  EXPECT_EQ(RefusalsOn(kJoined).size(), 2u);
  Data(Header(0, 2, 0, kTokens, 1), kJoined);
  FinishCopies();
  Commit(CommitMessage());
  Join(kStranger);
  EXPECT_EQ(RefusalsOn(kStranger), (std::vector{PushRefused::REASON_UNKNOWN_ATTEMPT}));
  EXPECT_EQ(receiver_->state(), State::kCommitted);
}

TEST_F(ReceiverStreamsTest, AtMostSixteenStreamsCarryAPush) {
  Receive();
  for (PushStreamId stream = 100; stream < 115; ++stream) Join(stream);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_UNSPECIFIED);
  Join(kJoined);
  EXPECT_EQ(RefusalsOn(kJoined), (std::vector{PushRefused::REASON_OUT_OF_RANGE}));
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  Do(ReceiveEvent::StreamLost{107});
  Join(kStranger);
  EXPECT_TRUE(RefusalsOn(kStranger).empty());
}

TEST_F(ReceiverStreamsTest, WhatBelongsOnTheFirstStreamEndsThePushOnAnother) {
  for (const bool commit : {true, false}) {
    Restart();
    Receive();
    Join(kJoined);
    Data(Header(0, 2, 0, kTokens, 1), kJoined);
    FinishCopies();
    Do(ReceiveEvent::ControlReceived{kJoined, commit ? CommitMessage() : JoinMessage()});
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(RefusalsOn(kStream), (std::vector{PushRefused::REASON_OUT_OF_RANGE}));
    EXPECT_TRUE(Ended(kStream) && Ended(kJoined));
    EXPECT_TRUE(Taken<ReceiveAction::CommitSequence>().empty());
  }
}

TEST_F(ReceiverStreamsTest, ALostJoinedStreamIsForgottenAndItsCopiesFinish) {
  Receive();
  Join(kJoined);
  Data(Header(0, 1, 0, kTokens, 1), kJoined);
  const auto copies = TakeCopies();
  ASSERT_EQ(copies.size(), 1u);
  Do(ReceiveEvent::StreamLost{kJoined});
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  // Sent again elsewhere, it waits for the copy and is acknowledged there.
  Data(Header(0, 1, 0, kTokens, 1), kStream);
  EXPECT_TRUE(TakeCopies().empty());
  FinishCopy(copies[0]);
  EXPECT_TRUE(TakeCopies().empty()) << "covered";
  EXPECT_TRUE(AcksOn(kJoined).empty());
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1}));
  Data(Header(1, 1, 0, kTokens, 2), kStream);
  FinishCopies();
  Commit(CommitMessage());
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_TRUE(HoldsTheSource());
}

TEST_F(ReceiverStreamsTest, ADamagedMessageOfALostStreamIsNotAskedForAgain) {
  Receive();
  Join(kJoined);
  Data(Header(0, 1, 0, 32, 1), kJoined);
  const auto copies = TakeCopies();
  Do(ReceiveEvent::StreamLost{kJoined});
  Data(Header(0, 1, 0, 32, 1), kStream);
  auto done = CopyPayload(copies[0], messages_.at(copies[0].message_id), target_);
  done.page_crcs[0] ^= 1;
  Do(done);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_UNSPECIFIED);
  FinishCopies();  // the copies of the missing page, from the second stream
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1}));
}

TEST_F(ReceiverStreamsTest, TheWindowCountsAMessageThatCameOnTwoStreamsOnce) {
  config_.limits.window_bytes = 1600;  // all of it, once
  receiver_.emplace(config_, now_);
  Receive();
  Join(kJoined);
  Data(Header(0, 2, 0, kTokens, 1), kJoined);
  Data(Header(0, 2, 0, kTokens, 1), kStream);  // the loss is not known here yet
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  Do(ReceiveEvent::StreamLost{kJoined});
  FinishCopies();
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1}));
  // The books balance: there is room for exactly as much again.
  Data(Header(0, 2, 0, kTokens, 2), kStream);
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(receiver_->state(), State::kReceiving);
}

// The sender missed the answer: it was damaged, or is still to come.
TEST_F(ReceiverStreamsTest, AMessageThatComesAgainOnItsStreamNeedsNoWindowAndIsAnswered) {
  config_.limits.window_bytes = 1600;  // all of it, once
  receiver_.emplace(config_, now_);
  Receive();
  Join(kJoined);
  Data(Header(0, 2, 0, kTokens, 1), kStream);
  Data(Header(0, 2, 0, kTokens, 1), kStream);  // while it is held
  EXPECT_EQ(Taken<ReceiveAction::Drop>().size(), 1u);
  FinishCopies();
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1})) << "the two have one answer";
  Data(Header(0, 2, 0, kTokens, 1), kStream);  // when it is covered
  EXPECT_TRUE(TakeCopies().empty());
  EXPECT_EQ(AcksOn(kStream), (std::vector<uint64_t>{1, 1}));
  EXPECT_EQ(receiver_->state(), State::kReceiving);
}

TEST_F(ReceiverStreamsTest, OneMessageUnderTwoNumbersCountsTwice) {
  config_.limits.window_bytes = 1600;
  receiver_.emplace(config_, now_);
  Receive();
  Data(Header(0, 2, 0, kTokens, 1), kStream);
  Data(Header(0, 2, 0, kTokens, 2), kStream);
  EXPECT_EQ(receiver_->state(), State::kDraining);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
}

TEST_F(ReceiverStreamsTest, BlocksGoBackAtTheLastCopyWhateverStreamItCameOn) {
  Receive();
  Join(kJoined);
  Data(Header(0, 1, 0, 32, 1), kStream);
  Data(Header(1, 1, 0, 32, 2), kJoined);
  const auto copies = TakeCopies();
  ASSERT_EQ(copies.size(), 2u);
  Do(ReceiveEvent::StreamLost{kStream});
  EXPECT_EQ(receiver_->state(), State::kDraining);
  EXPECT_TRUE(Ended(kJoined));
  Data(Header(1, 1, 32, 48, 3), kJoined);
  EXPECT_TRUE(TakeCopies().empty());
  FinishCopy(copies[0]);
  EXPECT_TRUE(Taken<ReceiveAction::ReleaseBlocks>().empty());
  FinishCopy(copies[1]);
  EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
}

TEST_F(ReceiverStreamsTest, APushThatNeverEndsIsEnded) {
  Receive();
  Data(Header(0, 1, 0, 16, 1));
  FinishCopies();
  const absl::Time start = now_;
  while (receiver_->state() == State::kReceiving) {
    ASSERT_LE(now_ - start, config_.limits.push_timeout);
    now_ = std::min(now_ + absl::Seconds(20), receiver_->NextDeadline());
    Do(ReceiveEvent::Tick{});
    if (receiver_->state() == State::kReceiving) Data(Header(0, 1, 0, 16, 1));  // once more
  }
  EXPECT_EQ(now_ - start, config_.limits.push_timeout);
  EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
}

}  // namespace
}  // namespace baton
