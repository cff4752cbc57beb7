// What a receiver leaves to the next attempt at its request, and when.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "common/handoff/kv_digest.h"
#include "decode_worker/receive_machine.h"
#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushAbort;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using State = ReceiveMachine::State;

class ReceiveMachineResume : public ReceiveMachineTest {
 protected:
  void ReceiveFrom(int start_token) {
    Restart();
    Open();
    Do(ReceiveEvent::Granted{start_token});
  }
  void Checkpoint(int start_token, int end_token) {
    PageCrcTable crcs(2, kTokens);
    for (int layer = 0; layer < 2; ++layer) {
      for (int first = start_token; first < end_token; first += kKvPageTokens) {
        crcs.At(layer, first / kKvPageTokens) =
            source_.PageCrc(layer, {first, std::min(end_token, first + kKvPageTokens)});
      }
    }
    PushRequest request;
    request.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end_token));
    request.mutable_checkpoint()->set_digest(KvDigest({.identity = config_.identity,
                                                       .token_ids = config_.token_ids,
                                                       .start_token = start_token,
                                                       .end_token = end_token,
                                                       .first_tokens = {},
                                                       .crcs = crcs}));
    Do(ReceiveEvent::ControlReceived{kStream, request});
  }
  std::optional<int> Left() {
    const auto released = Taken<ReceiveAction::ReleaseBlocks>();
    EXPECT_EQ(released.size(), 1u);
    return released.empty() ? std::nullopt : released[0].resume_tokens;
  }
};

TEST_F(ReceiveMachineResume, LeavesThePagesBeforeTheLastAgreedCheckpoint) {
  ReceiveFrom(16);
  Data(Header(0, 2, 16, 32, 1));
  FinishCopies();
  Checkpoint(16, 32);
  EXPECT_EQ(LastCheckpoint(), 32u);
  Data(Header(0, 2, 32, 48, 2));
  FinishCopies();
  Do(ReceiveEvent::StreamLost{kStream});
  EXPECT_EQ(Left(), 32) << "nobody agreed on what came after it";
}

TEST_F(ReceiveMachineResume, LeavesWhatWasHeldAtTheStartWhenNothingCameAfterIt) {
  ReceiveFrom(32);
  Do(ReceiveEvent::StreamLost{kStream});
  EXPECT_EQ(Left(), 32);
  Restart();
  Open();
  Do(ReceiveEvent::StreamLost{kStream});
  EXPECT_EQ(Left(), 0) << "the blocks were asked for, and what they hold is not known yet";
}

TEST_F(ReceiveMachineResume, ACheckpointThatDisagreesIsNotLeft) {
  ReceiveFrom(0);
  Data(Header(0, 2, 0, 16, 1));
  FinishCopies();
  Checkpoint(0, 16);
  Data(Header(0, 1, 16, 32, 2));
  FinishCopies();
  Checkpoint(0, 32);  // the second layer is missing
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_INCOMPLETE);
  EXPECT_EQ(Left(), 16);
}

TEST_F(ReceiveMachineResume, ALowerAttemptLeavesItsPagesAndAnEndedRequestNothing) {
  const auto left_after = [&](PushRefused::Reason reason) {
    ReceiveFrom(16);
    Do(ReceiveEvent::Cancelled{reason});
    EXPECT_EQ(LastRefusal(), reason);
    return Left();
  };
  EXPECT_EQ(left_after(PushRefused::REASON_SUPERSEDED), 16);
  EXPECT_EQ(left_after(PushRefused::REASON_ABORTED), std::nullopt);
}

TEST_F(ReceiveMachineResume, AnAbortLeavesThePagesUnlessTheFirstTokenEndedTheRequest) {
  const auto left_after = [&](PushAbort::Reason reason) {
    ReceiveFrom(16);
    PushRequest request;
    request.mutable_abort()->set_reason(reason);
    Do(ReceiveEvent::ControlReceived{kStream, request});
    return Left();
  };
  EXPECT_EQ(left_after(PushAbort::REASON_FAILED), 16);
  EXPECT_EQ(left_after(PushAbort::REASON_CANCELLED), 16);
  EXPECT_EQ(left_after(PushAbort::REASON_FINISHED_AT_FIRST_TOKEN), std::nullopt);
}

TEST_F(ReceiveMachineResume, LeavesNothingWhileACopyIsInFlight) {
  ReceiveFrom(16);
  Data(Header(0, 1, 16, 32, 1));
  const auto copies = TakeCopies();
  ASSERT_EQ(copies.size(), 1u);
  Do(ReceiveEvent::Cancelled{PushRefused::REASON_SUPERSEDED});
  EXPECT_EQ(receiver_->state(), State::kDraining);
  EXPECT_TRUE(Taken<ReceiveAction::ReleaseBlocks>().empty());
  Do(CopyPayload(copies[0], messages_.at(copies[0].message_id), target_));
  EXPECT_EQ(Left(), 16);
}

TEST_F(ReceiveMachineResume, ACommittedSequenceLeavesNothing) {
  ReceiveFrom(0);
  Data(Header(0, 2, 0, kTokens, 1));
  FinishCopies();
  Commit(CommitMessage());
  ASSERT_EQ(receiver_->state(), State::kCommitted);
  Do(ReceiveEvent::Cancelled{PushRefused::REASON_SUPERSEDED});
  EXPECT_EQ(Left(), std::nullopt);
}

TEST_F(ReceiveMachineResume, SaysHowKvWasMadeOnlyWhereThisWorkerWouldNotHaveMadeIt) {
  Open();
  ASSERT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>()[0].numerics, "");
  Restart();
  PushRequest open = OpenMessage();
  open.mutable_open()->mutable_shape()->set_numerics("another's");
  const std::string numerics = "another's over f16 into ";
  const std::vector<uint64_t> hashes =
      PageHashes(config_.identity, "", numerics, config_.token_ids);
  open.mutable_open()->mutable_page_hashes()->Assign(hashes.begin(), hashes.end());
  Do(ReceiveEvent::ControlReceived{kStream, open});
  ASSERT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>()[0].numerics, numerics);
}

}  // namespace
}  // namespace baton
