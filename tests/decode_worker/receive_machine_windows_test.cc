// A receiver for a model in which one layer has a window and another has none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "common/handoff/carried_tokens.h"
#include "decode_worker/receive_machine.h"
#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushRefused;
using internal::v1::PushRequest;
using ::testing::HasSubstr;
using State = ReceiveMachine::State;

constexpr int kLong = 200;  // tokens, of which layer 1 carries those from 112 on

class ReceiverWithWindow : public ReceiveMachineTest {
 protected:
  ReceiverWithWindow() {
    layout_.groups = KvLayerGroups({0, 16});
    const int entries = layout_.TableEntriesFor(kLong);
    std::vector<int32_t> table(static_cast<size_t>(entries));
    std::iota(table.begin(), table.end(), 0);
    for (int token = 0; token < 96; token += 32) table[layout_.TableIndex(1, token)] = kNoBlock;
    source_memory_.resize(layout_.block_bytes() * static_cast<size_t>(entries));
    for (size_t i = 0; i < source_memory_.size(); ++i) {
      source_memory_[i] = static_cast<uint8_t>(i * 37 >> 2);
    }
    target_memory_.assign(source_memory_.size(), 0xEE);
    source_ = {source_memory_.data(), layout_, table};
    target_ = {target_memory_.data(), layout_, table};
    config_ = MakeReceiverConfig(layout_, kLong);
    receiver_.emplace(config_, now_);
  }
  void Send(int layer, int layers, int first, int end) {
    Data(Header(layer, layers, first, end, ++sent_));
    FinishCopies();
  }
  void Checkpoint(int end_token) {
    Do(ReceiveEvent::ControlReceived{kStream, MakeCheckpoint(config_, source_, 0, end_token)});
  }
  std::string Failure() {
    const auto failed = Taken<ReceiveAction::Failed>();
    EXPECT_EQ(failed.size(), 1u);
    return failed.empty() ? "" : std::string(failed[0].status.message());
  }
  bool Holds(int layer, int first, int end) const {
    for (int token = first; token < end; ++token) {
      for (const auto part : {KvLayout::kKeys, KvLayout::kValues}) {
        if (std::memcmp(source_.Row(layer, part, token), target_.Row(layer, part, token),
                        layout_.row_bytes()) != 0) {
          return false;
        }
      }
    }
    return true;
  }

  uint64_t sent_ = 0;
};

TEST_F(ReceiverWithWindow, NeedsNothingOfALayerBeforeItsFirstToken) {
  Receive();
  Send(0, 1, 0, 64);
  Checkpoint(64);
  EXPECT_EQ(LastCheckpoint(), 64u) << "layer 1 carries nothing before 112";
  Send(0, 1, 64, 128);
  Send(1, 1, 112, 128);
  Checkpoint(128);
  EXPECT_EQ(LastCheckpoint(), 128u);
  Send(0, 2, 128, kLong);
  Commit(CommitMessage());
  EXPECT_EQ(Taken<ReceiveAction::CommitSequence>().size(), 1u);
  EXPECT_EQ(receiver_->state(), State::kCommitted);
  EXPECT_TRUE(Holds(0, 0, kLong));
  EXPECT_TRUE(Holds(1, 112, kLong));
}

TEST_F(ReceiverWithWindow, RefusesACheckpointThatLacksAPageOfTheLayerWithTheWindow) {
  Receive();
  Send(0, 1, 0, 128);
  Checkpoint(128);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_INCOMPLETE);
}

TEST_F(ReceiverWithWindow, RefusesTokensThatALayerDoesNotCarryByLayerAndToken) {
  Receive();
  Data(Header(0, 2, 96, 128, 1));
  EXPECT_TRUE(Taken<ReceiveAction::Copy>().empty());
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
  EXPECT_THAT(Failure(), HasSubstr("token 96 of layer 1, which carries the tokens from 112 on"));
}

TEST_F(ReceiverWithWindow, ResumesBehindWhereTheLayerBegins) {
  Open();
  Do(ReceiveEvent::Granted{128});
  Send(0, 2, 128, kLong);
  Commit(MakeCommit(config_, source_, 128));
  EXPECT_EQ(receiver_->state(), State::kCommitted);
}

TEST_F(ReceiverWithWindow, RefusesAnOpenWhoseLayerKeepsSomethingElse) {
  PushRequest open = OpenMessage();
  open.mutable_open()->mutable_shape()->mutable_layer_states(1)->set_window(32);
  Do(ReceiveEvent::ControlReceived{kStream, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_SHAPE);
  EXPECT_THAT(Failure(), HasSubstr("layer 1 is LAYER_STATE_KIND_LAST_ROWS with window 32, this "
                                   "worker's is LAYER_STATE_KIND_LAST_ROWS with window 16"));
}

TEST_F(ReceiverWithWindow, RefusesAnOpenWithAKindThatIsNotCarriedByName) {
  PushRequest open = OpenMessage();
  open.mutable_open()->mutable_shape()->mutable_layer_states(0)->set_kind(
      internal::v1::LAYER_STATE_KIND_BLOB);
  Do(ReceiveEvent::ControlReceived{kStream, open});
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_SHAPE);
  EXPECT_THAT(Failure(), HasSubstr("layer 0: LAYER_STATE_KIND_BLOB is not carried"));
}

TEST_F(ReceiverWithWindow, RefusesAMessageWithAKindThatIsNotCarriedByName) {
  Receive();
  internal::v1::KvDataHeader header = Header(0, 1, 0, 16, 1);
  header.set_state_kind(internal::v1::LAYER_STATE_KIND_LATENT_ROWS);
  Data(header);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_OUT_OF_RANGE);
  EXPECT_THAT(Failure(), HasSubstr("state_kind is LAYER_STATE_KIND_LATENT_ROWS"));
}

}  // namespace
}  // namespace baton
