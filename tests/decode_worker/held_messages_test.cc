#include "decode_worker/held_messages.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

HeldMessage Message(PushStreamId stream, uint64_t sequence_number) {
  HeldMessage message{.stream = stream, .payload_bytes = 100, .window_bytes = 100};
  message.header.set_sequence_number(sequence_number);
  return message;
}

TEST(HeldMessages, KnowAMessageThatComesAgainWhileItWaitsOrIsInCopy) {
  HeldMessages held;
  held.Wait(Message(1, 5));
  const uint64_t copy = held.BeginCopy({Message(1, 6), {}});
  EXPECT_TRUE(held.HoldsTheSame(Message(1, 5)));
  EXPECT_TRUE(held.HoldsTheSame(Message(1, 6)));
  EXPECT_FALSE(held.HoldsTheSame(Message(1, 7)));
  EXPECT_FALSE(held.HoldsTheSame(Message(2, 5)));
  EXPECT_TRUE(held.HeldFromOthersOnly(Message(2, 5)));
  EXPECT_FALSE(held.HeldFromOthersOnly(Message(1, 5)));
  EXPECT_EQ(held.EndCopy(copy).message.header.sequence_number(), 6u);
  EXPECT_FALSE(held.HoldsTheSame(Message(1, 6)));
  EXPECT_FALSE(held.any_in_copy());
  EXPECT_FALSE(held.empty()) << "one waits";
  EXPECT_EQ(held.TakeWaiting().size(), 1u);
  EXPECT_TRUE(held.empty());
}

TEST(HeldMessages, CountTheBytesThatTheWindowBounds) {
  HeldMessages held;
  held.Count(Message(1, 5));
  held.Count(Message(1, 6));
  EXPECT_EQ(held.bytes(), 200u);
  held.Uncount(Message(1, 5));
  EXPECT_EQ(held.bytes(), 100u);
}

}  // namespace
}  // namespace baton
