#include "router/fleet/circuit_breaker.h"

#include <gtest/gtest.h>

#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(1);

class CircuitBreakerTest : public testing::Test {
 protected:
  void FailInARow(int times) {
    for (int i = 0; i < times; ++i) breaker_.Failed(breaker_.Begin(now_), now_);
  }
  CircuitBreaker breaker_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(CircuitBreakerTest, OpensAfterSoManyFailuresInARow) {
  FailInARow(CircuitBreaker::kFailures - 1);
  EXPECT_TRUE(breaker_.Takes(now_));
  breaker_.Succeeded();
  FailInARow(CircuitBreaker::kFailures - 1);
  EXPECT_TRUE(breaker_.Takes(now_));
  FailInARow(1);
  EXPECT_FALSE(breaker_.Takes(now_));
  EXPECT_FALSE(breaker_.Takes(now_ + CircuitBreaker::kFirstPause - kMoment));
}

TEST_F(CircuitBreakerTest, OneProbeAfterEachPauseWhichGrows) {
  FailInARow(CircuitBreaker::kFailures);
  absl::Duration pause = CircuitBreaker::kFirstPause;
  for (int probe = 0; probe < 12; ++probe) {
    now_ += pause;
    EXPECT_TRUE(breaker_.Takes(now_));
    const uint64_t begun = breaker_.Begin(now_);
    EXPECT_FALSE(breaker_.Takes(now_)) << "one at a time";
    breaker_.Failed(begun, now_);
    pause = std::min(2 * pause, CircuitBreaker::kLongestPause);
    EXPECT_FALSE(breaker_.Takes(now_ + pause - kMoment));
  }
  now_ += pause;
  breaker_.Begin(now_);
  breaker_.Succeeded();
  EXPECT_TRUE(breaker_.Takes(now_));
  FailInARow(CircuitBreaker::kFailures);
  EXPECT_TRUE(breaker_.Takes(now_ + CircuitBreaker::kFirstPause)) << "it begins anew";
}

TEST_F(CircuitBreakerTest, AProbeOfWhichNothingIsHeardIsFollowedByAnother) {
  FailInARow(CircuitBreaker::kFailures);
  for (int probe = 0; probe < 5; ++probe) {
    now_ += CircuitBreaker::kLongestPause;
    EXPECT_TRUE(breaker_.Takes(now_));
    breaker_.Begin(now_);
  }
}

TEST_F(CircuitBreakerTest, WhatRanBesideAFailureIsNotTheNextInARow) {
  std::vector<uint64_t> begun;
  for (int i = 0; i < 100; ++i) begun.push_back(breaker_.Begin(now_));
  for (const uint64_t one : begun) breaker_.Failed(one, now_);
  EXPECT_TRUE(breaker_.Takes(now_)) << "one connection broke";
  FailInARow(CircuitBreaker::kFailures - 1);
  EXPECT_FALSE(breaker_.Takes(now_));
}

TEST(IsWorkersFault, NotWhatClientsQueuesDrainsAndLinksDo) {
  EXPECT_TRUE(IsWorkersFault(absl::UnavailableError("connection reset")));
  EXPECT_TRUE(IsWorkersFault(absl::InternalError("NaN")));
  EXPECT_FALSE(IsWorkersFault(absl::OkStatus()));
  EXPECT_FALSE(IsWorkersFault(absl::InvalidArgumentError("top_p")));
  EXPECT_FALSE(IsWorkersFault(absl::ResourceExhaustedError("full")));
  EXPECT_FALSE(IsWorkersFault(absl::CancelledError("cancelled")));
  EXPECT_FALSE(IsWorkersFault(absl::DeadlineExceededError("late")));
  for (const char* reason :
       {kReasonDraining, kReasonKvTransferFailed, kReasonKvWrong, kReasonPusherQuarantined}) {
    EXPECT_FALSE(IsWorkersFault(WithErrorInfo(absl::UnavailableError("x"), {.reason = reason})));
  }
}

}  // namespace
}  // namespace baton
