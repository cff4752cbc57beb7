#include "router/placement/link_estimates.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(LinkEstimates, FollowsWhatIsMeasured) {
  LinkEstimates links;
  EXPECT_EQ(links.Get(1, 2, kNow).bytes_per_second, 0);
  links.Succeeded(1, 2, 10 << 20, absl::Milliseconds(10), absl::Milliseconds(1));
  EXPECT_NEAR(links.Get(1, 2, kNow).bytes_per_second, 1.05e9, 1e7);
  EXPECT_EQ(links.Get(1, 2, kNow).exposed, absl::Milliseconds(1));
  for (int i = 0; i < 50; ++i) {
    links.Succeeded(1, 2, 10 << 20, absl::Milliseconds(100), absl::Milliseconds(60));
  }
  EXPECT_NEAR(links.Get(1, 2, kNow).bytes_per_second, 1.05e8, 1e6);
  EXPECT_GT(links.Get(1, 2, kNow).exposed, absl::Milliseconds(59));
  const double before = links.Get(1, 2, kNow).bytes_per_second;
  links.Succeeded(1, 2, 100, absl::Milliseconds(5), absl::Milliseconds(5));
  EXPECT_EQ(links.Get(1, 2, kNow).bytes_per_second, before) << "that was a round trip";
  EXPECT_EQ(links.Get(2, 1, kNow).bytes_per_second, 0);
}

TEST(LinkEstimates, WhatNoLinkDoesIsNotBelieved) {
  LinkEstimates links;
  for (const absl::Duration transfer :
       {absl::Nanoseconds(1) / 4, absl::Nanoseconds(1), absl::InfiniteDuration()}) {
    for (const absl::Duration exposed : {absl::InfiniteDuration(), -absl::InfiniteDuration()}) {
      links.Succeeded(1, 2, uint64_t{1} << 63, transfer, exposed);
      const LinkEstimate link = links.Get(1, 2, kNow);
      EXPECT_GE(link.bytes_per_second, 1e3);
      EXPECT_LE(link.bytes_per_second, 1e12);
      EXPECT_GE(link.exposed, absl::ZeroDuration());
      EXPECT_LE(link.exposed, absl::Minutes(10));
    }
  }
}

TEST(LinkEstimates, AFailedPairIsBadForAWhileThatGrowsUntilItWorks) {
  LinkEstimates links;
  absl::Time now = kNow;
  absl::Duration pause = LinkEstimates::kFirstPause;
  for (int i = 0; i < 10; ++i) {
    for (int at_once = 0; at_once < 20; ++at_once) links.Failed(1, 2, now);
    EXPECT_TRUE(links.Get(1, 2, now + pause - absl::Milliseconds(1)).bad);
    now += pause;
    EXPECT_FALSE(links.Get(1, 2, now).bad);
    pause = std::min(2 * pause, LinkEstimates::kLongestPause);
  }
  EXPECT_FALSE(links.Get(1, 3, now).bad);
  links.Failed(1, 2, now);
  links.Succeeded(1, 2, 0, absl::ZeroDuration(), absl::ZeroDuration());
  EXPECT_FALSE(links.Get(1, 2, now).bad);
}

TEST(LinkEstimates, ForgetsWorkersThatAreGoneAndTheOldestOfTooMany) {
  LinkEstimates links;
  links.Failed(1, 2, kNow);
  links.Failed(3, 1, kNow);
  links.Failed(3, 2, kNow);
  links.Forget(1);
  EXPECT_EQ(links.size(), 1u);
  EXPECT_TRUE(links.Get(3, 2, kNow).bad);
  for (uint64_t decode = 10; decode < 10 + LinkEstimates::kMaxLinks; ++decode) {
    links.Failed(9, decode, kNow);
  }
  EXPECT_EQ(links.size(), LinkEstimates::kMaxLinks);
  EXPECT_FALSE(links.Get(3, 2, kNow).bad);
  EXPECT_TRUE(links.Get(9, 10, kNow).bad);
}

}  // namespace
}  // namespace baton
