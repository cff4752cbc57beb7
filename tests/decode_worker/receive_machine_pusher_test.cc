// Whom the receiver lets open and join a push.
#include <algorithm>
#include <random>
#include <string>
#include <variant>

#include "gtest/gtest.h"

#include "tests/decode_worker/receive_machine_fixture.h"

namespace baton {
namespace {

using internal::v1::PushRefused;
using internal::v1::PushRequest;

constexpr char kPusher[] = "spiffe://d/baton/prefill/a";
constexpr PushStreamId kIntruder = 3;

// The receiver of an attempt whose prefill worker the router has named.
class ReceiveMachinePusherTest : public ReceiveMachineTest {
 protected:
  ReceiveMachinePusherTest() {
    config_.secure = true;
    config_.pusher.set_peer_id(kPusher);
    config_.limits.capability_lifetime = absl::Minutes(1);
    receiver_.emplace(config_, now_);
    open_ = OpenMessage();
    join_ = JoinMessage();
  }

  void OpenAs(const std::string& peer, PushStreamId stream = kStream) {
    Do(ReceiveEvent::ControlReceived{stream, open_, peer});
  }
  // What an open, or once the push is open a join, with this capability is answered from this peer.
  // Nothing but the answer may come of it.
  PushRefused::Reason Show(const std::string& capability, const std::string& peer) {
    actions_.clear();
    const ReceiveMachine::State state = receiver_->state();
    const absl::Time deadline = receiver_->NextDeadline();
    const bool join = state != ReceiveMachine::State::kReserved;
    PushRequest& request = join ? join_ : open_;
    const PushRequest before = request;
    (join ? *request.mutable_join()->mutable_capability()
          : *request.mutable_open()->mutable_capability()) = capability;
    Do(ReceiveEvent::ControlReceived{kIntruder, request, peer});
    request = before;
    EXPECT_EQ(actions_.size(), 2u) << "a refusal, and the end of that stream";
    EXPECT_EQ(Taken<ReceiveAction::Send>().size(), 1u);
    EXPECT_EQ(Taken<ReceiveAction::EndStream>().size(), 1u);
    EXPECT_EQ(receiver_->state(), state);
    EXPECT_EQ(receiver_->NextDeadline(), deadline);
    return LastRefusal();
  }
  // A capability or a peer that is not the right one.
  PushRefused::Reason ShowSomethingWrong(std::mt19937_64& random) {
    std::string capability = config_.capability;
    std::string peer = kPusher;
    const size_t bit = random() % 128;
    switch (random() % 8) {
      case 0:
        peer.clear();
        break;
      case 1:  // another worker's certificate
        peer.back() = static_cast<char>('b' + random() % 25);
        break;
      case 2:
        peer.resize(random() % peer.size());
        break;
      case 3:
        capability.resize(random() % capability.size());
        break;
      case 4:  // another attempt's capability
        for (char& byte : capability) byte = static_cast<char>(random());
        break;
      default:
        capability[bit / 8] = static_cast<char>(capability[bit / 8] ^ (1 << (bit % 8)));
    }
    return Show(capability, peer);
  }

  PushRequest open_, join_;
};

TEST_F(ReceiveMachinePusherTest, OfAHundredThousandFalseCapabilitiesNoneOpensOrJoinsAnything) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_EQ(ShowSomethingWrong(random), PushRefused::REASON_CAPABILITY) << i;
  }
  OpenAs(kPusher);
  Do(ReceiveEvent::Granted{0});
  ASSERT_EQ(receiver_->state(), ReceiveMachine::State::kReceiving) << "the right one still opens";
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_EQ(ShowSomethingWrong(random), PushRefused::REASON_CAPABILITY) << i;
  }
  Do(ReceiveEvent::ControlReceived{kStream + 1, join_, kPusher});
  Data(Header(0, 2, 0, kTokens, 1), kStream + 1);
  FinishCopies();
  EXPECT_EQ(AcksOn(kStream + 1).size(), 1u) << "the right one still joins";
}

TEST_F(ReceiveMachinePusherTest, ACapabilityOpensOnce) {
  OpenAs(kPusher);
  Do(ReceiveEvent::Granted{0});
  actions_.clear();
  OpenAs(kPusher, kIntruder);
  EXPECT_EQ(LastRefusal(), PushRefused::REASON_UNKNOWN_ATTEMPT);
  EXPECT_EQ(actions_.size(), 2u);
  EXPECT_EQ(receiver_->state(), ReceiveMachine::State::kReceiving);
}

TEST_F(ReceiveMachinePusherTest, ACapabilityExpiresWhateverTheStateOfThePush) {
  const absl::Time end = now_ + absl::Minutes(1);
  now_ = end;
  EXPECT_EQ(Show(config_.capability, kPusher), PushRefused::REASON_CAPABILITY);
  EXPECT_GT(receiver_->NextDeadline(), end) << "the reservation has more time";
  receiver_.emplace(config_, end - absl::Minutes(1));
  now_ = end - absl::Nanoseconds(1);
  OpenAs(kPusher);
  Do(ReceiveEvent::Granted{0});
  ASSERT_EQ(receiver_->state(), ReceiveMachine::State::kReceiving);
  now_ = end;
  EXPECT_EQ(Show(config_.capability, kPusher), PushRefused::REASON_CAPABILITY);
  Data(Header(0, 2, 0, kTokens, 1));
  FinishCopies();
  EXPECT_EQ(AcksOn(kStream).size(), 1u) << "what was opened in time goes on";
}

TEST_F(ReceiveMachinePusherTest, WithTlsNobodyPushesWhereTheRouterNamedNobody) {
  config_.pusher.clear_peer_id();
  receiver_.emplace(config_, now_);
  EXPECT_EQ(Show(config_.capability, ""), PushRefused::REASON_CAPABILITY);
  EXPECT_EQ(Show(config_.capability, kPusher), PushRefused::REASON_CAPABILITY);
}

TEST_F(ReceiveMachinePusherTest, WithoutTlsTheCapabilityAloneOpens) {
  config_.secure = false;
  receiver_.emplace(config_, now_);
  OpenAs("");
  EXPECT_EQ(Taken<ReceiveAction::TakeBlocks>().size(), 1u);
}

TEST_F(ReceiveMachinePusherTest, ThePusherOpensOnlyForTheTokensThatTheRouterSent) {
  for (int token = 0; token < kTokens; ++token) {
    Restart();
    std::vector<int32_t> ids = config_.token_ids;
    ++ids[static_cast<size_t>(token)];
    const std::vector<uint64_t> hashes = PageHashes(config_.identity, "", "", ids);
    PushRequest request = OpenMessage();
    std::copy(hashes.begin(), hashes.end(), request.mutable_open()->mutable_page_hashes()->begin());
    Do(ReceiveEvent::ControlReceived{kStream, request});
    EXPECT_EQ(LastRefusal(), PushRefused::REASON_SHAPE) << token;
    EXPECT_TRUE(Taken<ReceiveAction::TakeBlocks>().empty()) << token;
  }
}

}  // namespace
}  // namespace baton
