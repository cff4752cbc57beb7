// How long a receiver waits for its push, and for each message of it.
#include <gtest/gtest.h>

#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using State = ReceiveMachine::State;

TEST_F(ReceiveMachineTest, APushThatIsSilentForHalfAMinuteEndsWhateverCameBefore) {
  for (const bool data : {false, true}) {
    Restart();
    Receive();
    now_ += absl::Seconds(20);
    if (data) {
      Data(Header(0, 1, 0, 16, 1));
      FinishCopies();
    }
    EXPECT_EQ(receiver_->NextDeadline(), now_ + absl::Seconds(data ? 30 : 10));
    now_ = receiver_->NextDeadline();
    Do(ReceiveEvent::Tick{});
    EXPECT_EQ(receiver_->state(), State::kGone);
    EXPECT_EQ(Taken<ReceiveAction::ReleaseBlocks>().size(), 1u);
  }
}

// The prompt waits in the prefill worker's engine, or the link is slow.
TEST_F(ReceiveMachineTest, APushThatGivesSignsOfLifeForTenMinutesGoesOn) {
  Receive();
  ASSERT_TRUE(Taken<ReceiveAction::Send>().back().message.opened().takes_signs());
  internal::v1::PushRequest alive;
  alive.mutable_alive();
  for (int sign = 0; sign < 60; ++sign) {
    now_ += absl::Seconds(10);
    Do(ReceiveEvent::Tick{});
    Do(ReceiveEvent::ControlReceived{kStream, alive});
  }
  EXPECT_EQ(receiver_->state(), State::kReceiving);
  Data(Header(0, 2, 0, kTokens, 1));
  FinishCopies();
  Commit(CommitMessage());
  EXPECT_EQ(receiver_->state(), State::kCommitted);
}

TEST_F(ReceiveMachineTest, ASignOfLifeOfAnotherStreamKeepsNoPush) {
  Receive();
  Join(kStream + 1);
  internal::v1::PushRequest alive;
  alive.mutable_alive();
  const absl::Time deadline = receiver_->NextDeadline();
  now_ += absl::Seconds(1);
  Do(ReceiveEvent::ControlReceived{kStream + 2, alive});
  EXPECT_EQ(receiver_->NextDeadline(), deadline) << "a stream that carries nothing of it";
  Do(ReceiveEvent::ControlReceived{kStream + 1, alive});
  EXPECT_EQ(receiver_->state(), State::kGone) << "a stream that joined carries data only";
}

// Its prompt may wait on the prefill worker; the router sees whether that worker still has it.
TEST_F(ReceiveMachineTest, AReservationWaitsForItsPushForMoreThanTenMinutes) {
  now_ += absl::Minutes(20);
  Do(ReceiveEvent::Tick{});
  Receive();
  EXPECT_EQ(receiver_->state(), State::kReceiving);
}

}  // namespace
}  // namespace baton
