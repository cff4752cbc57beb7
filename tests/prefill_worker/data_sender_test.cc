#include "prefill_worker/data_sender.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kSentTokens = 128;
constexpr uint64_t kSentPageBytes = 16 * 2 * 4 * 2;  // K and V of 4 halves

// A prompt of one layer, in messages of two pages.
class DataSenderTest : public ::testing::Test {
 protected:
  static SendConfig Config() {
    SendConfig config;
    config.layout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};
    config.token_ids.resize(kSentTokens);
    config.open.set_wire_dtype("f16");
    config.limits.max_payload_bytes = 2 * kSentPageBytes;
    config.limits.min_payload_bytes = 0;
    return config;
  }
  // Opens the push, and computes all of it.
  int Open(int start_token, int most_streams, uint64_t window = 1 << 20) {
    sender_.Add({{0, {0, kSentTokens}}, std::vector<uint32_t>(8, 7)});
    sender_.AllComputed(now_);
    sender_.SetWindow(window);
    return sender_.Open(start_token, most_streams);
  }
  // The messages that were sent since the last call, as (sequence number, stream).
  std::vector<std::pair<uint64_t, int>> TakeSent() {
    std::vector<std::pair<uint64_t, int>> sent;
    for (const SendAction::Any& action : std::exchange(actions_, {})) {
      if (const auto* data = std::get_if<SendAction::SendData>(&action)) {
        sent.emplace_back(data->header.sequence_number(), data->stream);
      }
    }
    return sent;
  }
  std::vector<std::pair<uint64_t, int>> Pump() {
    sender_.Pump(now_, actions_);
    return TakeSent();
  }
  bool Acknowledge(uint64_t sequence_number, int stream = 0) {
    return sender_.Acknowledge(sequence_number, stream, /*repeat=*/true, now_, actions_);
  }

  const absl::Time now_ = absl::UnixEpoch();
  DataSender sender_{Config()};
  DataSender::Actions actions_;
};

TEST_F(DataSenderTest, SendsWhatTheReceiverLacksUntilAllIsAcknowledged) {
  EXPECT_EQ(Open(/*start_token=*/32, /*most_streams=*/1), 1);
  EXPECT_EQ(sender_.start_token(), 32);
  EXPECT_THAT(Pump(), ElementsAre(std::pair(1, 0), std::pair(2, 0), std::pair(3, 0)));
  EXPECT_TRUE(Acknowledge(1));
  EXPECT_TRUE(Acknowledge(2));
  EXPECT_TRUE(sender_.AcknowledgedBefore(96));
  EXPECT_FALSE(sender_.AcknowledgedBefore(112));
  EXPECT_FALSE(sender_.all_acknowledged());
  EXPECT_TRUE(Acknowledge(3));
  EXPECT_TRUE(sender_.all_acknowledged());
  EXPECT_EQ(sender_.Report(true, now_).bytes_saved, 2 * kSentPageBytes);
  EXPECT_EQ(sender_.Report(true, now_).bytes_sent, 6 * kSentPageBytes);
}

TEST_F(DataSenderTest, NeverHasMoreUnacknowledgedThanTheWindow) {
  Open(0, 1, /*window=*/3 * kSentPageBytes);
  EXPECT_THAT(Pump(), ElementsAre(std::pair(1, 0))) << "a second one would be four pages";
  EXPECT_THAT(Pump(), IsEmpty());
  EXPECT_TRUE(Acknowledge(1));
  EXPECT_THAT(Pump(), ElementsAre(std::pair(2, 0)));
  EXPECT_TRUE(sender_.WindowHoldsAPage());
  sender_.SetWindow(kSentPageBytes - 1);
  EXPECT_FALSE(sender_.WindowHoldsAPage());
}

TEST_F(DataSenderTest, UsesNoMoreStreamsThanThereAreFullMessages) {
  EXPECT_EQ(Open(/*start_token=*/80, /*most_streams=*/4), 1) << "three pages are left";
  EXPECT_EQ(DataSender(Config()).Open(0, 3), 3);
  EXPECT_EQ(DataSender(Config()).Open(0, 8), 4);
}

TEST_F(DataSenderTest, WhatALostStreamCarriedGoesOutOnTheOthers) {
  ASSERT_EQ(Open(0, 2), 2);
  EXPECT_THAT(Pump(),
              ElementsAre(std::pair(1, 0), std::pair(2, 1), std::pair(3, 0), std::pair(4, 1)));
  sender_.LoseStream(1, /*resend=*/true, now_, actions_);
  EXPECT_FALSE(sender_.Carries(1));
  EXPECT_THAT(TakeSent(), ElementsAre(std::pair(2, 0), std::pair(4, 0)));
  EXPECT_EQ(sender_.Report(false, now_).bytes_resent, 4 * kSentPageBytes);
}

TEST_F(DataSenderTest, AMessageIsResentThreeTimesWhereItIsRefused) {
  Open(96, 1);
  EXPECT_THAT(Pump(), ElementsAre(std::pair(1, 0)));
  for (int time = 0; time < 3; ++time) {
    EXPECT_TRUE(sender_.Resend(1, now_, actions_));
    EXPECT_THAT(TakeSent(), ElementsAre(std::pair(1, 0)));
  }
  EXPECT_FALSE(sender_.Resend(1, now_, actions_));
  EXPECT_THAT(TakeSent(), IsEmpty());
}

TEST_F(DataSenderTest, ADamagedAnswerSendsTheOldestOfItsStreamAgain) {
  Open(64, 1);
  EXPECT_THAT(Pump(), ElementsAre(std::pair(1, 0), std::pair(2, 0)));
  EXPECT_FALSE(Acknowledge(99));
  EXPECT_THAT(TakeSent(), ElementsAre(std::pair(1, 0)));
}

TEST_F(DataSenderTest, SlicesLiveUntilEachSendingIsReleased) {
  Open(96, 1);
  EXPECT_FALSE(sender_.slices_alive());
  Pump();
  EXPECT_TRUE(sender_.Resend(1, now_, actions_));
  sender_.Released(/*intact=*/true);
  EXPECT_TRUE(sender_.slices_alive());
  sender_.Released(/*intact=*/false);
  EXPECT_FALSE(sender_.slices_alive());
  EXPECT_EQ(sender_.Report(false, now_).stale_messages, 1u);
}

}  // namespace
}  // namespace baton
