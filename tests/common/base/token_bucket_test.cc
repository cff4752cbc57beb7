#include "common/base/token_bucket.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

const absl::Time kNow = absl::UnixEpoch();

TEST(TokenBucket, IsFullAtFirstAndFillsAtItsRate) {
  TokenBucket bucket(10, 20);
  EXPECT_TRUE(bucket.TryTake(20, kNow));
  EXPECT_FALSE(bucket.TryTake(1, kNow));
  EXPECT_EQ(bucket.Until(5, kNow), absl::Milliseconds(500));
  EXPECT_TRUE(bucket.TryTake(5, kNow + absl::Milliseconds(500)));
  EXPECT_FALSE(bucket.TryTake(1, kNow + absl::Milliseconds(500)));
  EXPECT_TRUE(bucket.Full(kNow + absl::Seconds(10)));
}

TEST(TokenBucket, WhatIsGivenBackIsThereAtOnceUpToTheCapacity) {
  TokenBucket bucket(10, 20);
  bucket.Take(50, kNow);
  bucket.Give(40);
  EXPECT_EQ(bucket.Until(10, kNow), absl::ZeroDuration());
  EXPECT_EQ(bucket.Until(11, kNow), absl::Milliseconds(100));
  bucket.Give(1000);
  EXPECT_TRUE(bucket.Full(kNow));
  EXPECT_TRUE(bucket.TryTake(20, kNow));
  EXPECT_FALSE(bucket.TryTake(1, kNow));
}

// Threads take the time before they come to the bucket, some of them long before.
TEST(TokenBucket, NoTimeFillsItTwiceWhenCallersComeWithTimesOutOfOrder) {
  TokenBucket bucket(10, 20);
  EXPECT_TRUE(bucket.TryTake(20, kNow + absl::Seconds(1)));
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(bucket.TryTake(1, kNow));
    EXPECT_FALSE(bucket.TryTake(1, kNow + absl::Seconds(1)));
  }
}

}  // namespace
}  // namespace baton
