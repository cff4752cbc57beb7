#include "common/net/connection_rate.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

// How many of so many connections, one after another at one moment, may be made.
int Taken(ConnectionRate& rate, const std::string& peer, int tries, absl::Time now) {
  int taken = 0;
  for (int i = 0; i < tries; ++i) taken += rate.TryTake(peer, now) ? 1 : 0;
  return taken;
}

TEST(ConnectionRateTest, APeerMayConnectInABurstAndThenAtItsRate) {
  ConnectionRate rate({.per_second = 10, .burst = 5});
  EXPECT_EQ(Taken(rate, "a", 100, kStart), 5);
  EXPECT_EQ(Taken(rate, "a", 100, kStart + absl::Milliseconds(99)), 0);
  EXPECT_EQ(Taken(rate, "a", 100, kStart + absl::Milliseconds(300)), 3);
  EXPECT_EQ(Taken(rate, "a", 100, kStart + absl::Hours(1)), 5);
}

TEST(ConnectionRateTest, WhatOnePeerDoesIsNothingToAnother) {
  ConnectionRate rate({.per_second = 10, .burst = 5});
  EXPECT_EQ(Taken(rate, "a", 100, kStart), 5);
  EXPECT_EQ(Taken(rate, "b", 100, kStart), 5);
}

TEST(ConnectionRateTest, WithoutARateEverybodyMayConnectAndNobodyIsRemembered) {
  ConnectionRate rate({});
  EXPECT_EQ(Taken(rate, "a", 1000, kStart), 1000);
  EXPECT_EQ(rate.remembered_peers(), 0);
}

TEST(ConnectionRateTest, ManyPeersTakeNoMoreMemoryAndThoseWithoutRoomShareOneRate) {
  ConnectionRate rate({.per_second = 1, .burst = 5, .max_peers = 10});
  int taken = 0;
  for (int i = 0; i < 1000; ++i) {
    taken += Taken(rate, absl::StrCat("peer ", i), 1, kStart);
    ASSERT_LE(rate.remembered_peers(), 10);
  }
  EXPECT_EQ(taken, 10 + 5);
  EXPECT_EQ(Taken(rate, "peer 0", 100, kStart), 4) << "who is remembered has a rate of his own";
}

TEST(ConnectionRateTest, WhoMayAgainConnectAsOftenAsAnybodyMakesRoom) {
  ConnectionRate rate({.per_second = 1, .burst = 5, .max_peers = 2});
  EXPECT_EQ(Taken(rate, "seldom", 1, kStart), 1);
  EXPECT_EQ(Taken(rate, "often", 100, kStart), 5);
  const absl::Time later = kStart + absl::Seconds(2);
  EXPECT_EQ(Taken(rate, "new", 100, later), 5);
  EXPECT_EQ(Taken(rate, "often", 100, later), 2) << "he was forgotten before his time";
  EXPECT_EQ(rate.remembered_peers(), 2);
}

}  // namespace
}  // namespace baton
