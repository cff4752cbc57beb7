#include "decode_worker/data_receiver.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "tests/support/push_messages.h"

namespace baton {
namespace {

using internal::v1::PushRefused;

constexpr PushStreamId kDataStream = 7;
constexpr PushStreamId kJoinedStream = 8;
const KvLayout kReceivedLayout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};

// A push of three pages; each page's CRC is its number.
class DataReceiverTest : public ::testing::Test {
 protected:
  DataReceiverTest() {
    receiver_.Open(KvType::kF16);
    streams_.Open(kDataStream);
    streams_.Join(kJoinedStream);
  }

  ReceiveEvent::DataReceived Event(uint64_t sequence_number, int first_page, int end_page,
                                   PushStreamId stream = kDataStream) {
    internal::v1::KvDataHeader header;
    *header.mutable_key() = config_.key;
    header.set_sequence_number(sequence_number);
    header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
    header.set_layer_count(1);
    header.set_kv_head_count(1);
    header.set_first_token(static_cast<uint32_t>(16 * first_page));
    header.set_token_count(static_cast<uint32_t>(16 * (end_page - first_page)));
    for (int page = first_page; page < end_page; ++page) {
      header.add_page_crc32c(static_cast<uint32_t>(page));
    }
    const std::string bytes = header.SerializeAsString();
    return {.stream = stream,
            .message_id = ++last_message_,
            .header = bytes,
            .header_crc32c = Crc32c(bytes.data(), bytes.size()),
            .payload_bytes = kPagePayload * static_cast<size_t>(end_page - first_page)};
  }
  // Takes the event, and returns why the push has to end.
  PushRefused::Reason Take(const ReceiveEvent::DataReceived& event) {
    const auto failure = receiver_.Take(config_, event, streams_, actions_);
    return failure.has_value() ? failure->reason : PushRefused::REASON_UNSPECIFIED;
  }
  PushRefused::Reason EndCopy(uint64_t copy_id, std::vector<uint32_t> page_crcs, bool ok = true) {
    const auto failure =
        receiver_.EndCopy({copy_id, ok, std::move(page_crcs), {}}, streams_, actions_);
    return failure.has_value() ? failure->reason : PushRefused::REASON_UNSPECIFIED;
  }
  // The actions of this kind since the last call; the others are forgotten.
  template <typename Action>
  std::vector<Action> TakeActions() {
    std::vector<Action> taken;
    for (const ReceiveAction::Any& action : std::exchange(actions_, {})) {
      if (const auto* one = std::get_if<Action>(&action)) taken.push_back(*one);
    }
    return taken;
  }

  static constexpr size_t kPagePayload = 16 * 2 * 4 * 2;  // K and V of 4 halves
  ReceiveConfig config_ = [] {
    ReceiveConfig config = MakeReceiverConfig(kReceivedLayout, 48);
    config.limits.window_bytes = 2 * kPagePayload;
    return config;
  }();
  DataReceiver receiver_{config_};
  PushStreams streams_;
  DataReceiver::Actions actions_;
  uint64_t last_message_ = 0;
};

TEST_F(DataReceiverTest, AMessageIsCopiedAndThenAcknowledgedOnItsStream) {
  EXPECT_EQ(Take(Event(5, 0, 2, kJoinedStream)), PushRefused::REASON_UNSPECIFIED);
  const auto copies = TakeActions<ReceiveAction::Copy>();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].ranges, (std::vector<LayerTokens>{{0, {0, 32}}}));
  EXPECT_TRUE(receiver_.any_in_copy());
  EXPECT_FALSE(receiver_.CoveredBefore(16));
  EXPECT_EQ(EndCopy(copies[0].copy_id, {0, 1}), PushRefused::REASON_UNSPECIFIED);
  const auto sends = TakeActions<ReceiveAction::Send>();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends[0].stream, kJoinedStream);
  EXPECT_EQ(sends[0].message.ack().sequence_number(), 5u);
  EXPECT_EQ(sends[0].message.ack().window_bytes(), 2 * kPagePayload);
  EXPECT_TRUE(receiver_.CoveredBefore(32));
  EXPECT_TRUE(receiver_.all_answered());
}

TEST_F(DataReceiverTest, AMessageWaitsForACopyIntoOneOfItsPages) {
  Take(Event(1, 0, 1));
  const auto first = TakeActions<ReceiveAction::Copy>();
  ASSERT_EQ(first.size(), 1u);
  Take(Event(2, 0, 1, kJoinedStream));
  EXPECT_TRUE(TakeActions<ReceiveAction::Copy>().empty());
  EndCopy(first[0].copy_id, {9});  // the page is empty again
  const auto second = TakeActions<ReceiveAction::Copy>();
  ASSERT_EQ(second.size(), 1u);
  EndCopy(second[0].copy_id, {0});
  const auto sends = TakeActions<ReceiveAction::Send>();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_EQ(sends[0].message.ack().sequence_number(), 2u);
}

TEST_F(DataReceiverTest, AMessageWhosePageDoesNotAgreeIsAskedForThreeTimes) {
  for (int time = 1; time <= 4; ++time) {
    Take(Event(1, 0, 1));
    const auto copies = TakeActions<ReceiveAction::Copy>();
    ASSERT_EQ(copies.size(), 1u);
    const PushRefused::Reason reason = EndCopy(copies[0].copy_id, {9});
    EXPECT_EQ(reason, time <= 3 ? PushRefused::REASON_UNSPECIFIED : PushRefused::REASON_CHECKSUM);
    const auto sends = TakeActions<ReceiveAction::Send>();
    ASSERT_EQ(sends.size(), time <= 3 ? 1u : 0u);
    for (const auto& send : sends) EXPECT_EQ(send.message.refused().sequence_number(), 1u);
  }
}

TEST_F(DataReceiverTest, AStreamThatIsNotThePushesAnyMoreIsNotAnswered) {
  Take(Event(1, 0, 1, kJoinedStream));
  const auto copies = TakeActions<ReceiveAction::Copy>();
  ASSERT_EQ(copies.size(), 1u);
  streams_.Forget(kJoinedStream);
  EXPECT_EQ(EndCopy(copies[0].copy_id, {0}), PushRefused::REASON_UNSPECIFIED);
  EXPECT_TRUE(TakeActions<ReceiveAction::Send>().empty());
  EXPECT_TRUE(receiver_.CoveredBefore(16));
}

TEST_F(DataReceiverTest, WhatCannotBeTakenEndsThePushAndIsDropped) {
  ReceiveEvent::DataReceived damaged = Event(1, 0, 1);
  damaged.header[0] = static_cast<char>(damaged.header[0] ^ 1);
  EXPECT_EQ(Take(damaged), PushRefused::REASON_CHECKSUM);
  EXPECT_EQ(TakeActions<ReceiveAction::Drop>().size(), 1u);
  EXPECT_EQ(Take(Event(1, 0, 4)), PushRefused::REASON_OUT_OF_RANGE) << "the sequence has 3 pages";
  EXPECT_EQ(TakeActions<ReceiveAction::Drop>().size(), 1u);
  EXPECT_EQ(Take(Event(1, 0, 2)), PushRefused::REASON_UNSPECIFIED);
  EXPECT_EQ(Take(Event(2, 2, 3)), PushRefused::REASON_OUT_OF_RANGE) << "the window is full";
  const auto copies = TakeActions<ReceiveAction::Copy>();
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(EndCopy(copies[0].copy_id, {0, 1}, /*ok=*/false), PushRefused::REASON_ABORTED);
}

}  // namespace
}  // namespace baton
