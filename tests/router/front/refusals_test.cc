#include "router/front/refusals.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/simulation/event_queue.h"
#include "tests/simulation/router/virtual_loop.h"

namespace baton {
namespace {

const absl::Status kAtItsLimit = absl::ResourceExhaustedError("at its limit");

class RefusalsTest : public testing::Test {
 protected:
  static Caller Of(const std::string& tenant) { return {.tenant = tenant, .declared = true}; }
  // How many of so many refusals are told at once.
  int ToldAtOnce(const Caller& caller, int count, const absl::Status& status = kAtItsLimit) {
    const int before = told_;
    for (int i = 0; i < count; ++i) refusals_->Refuse(caller, status, [this] { ++told_; });
    return told_ - before;
  }
  void RunFor(absl::Duration duration) {
    bool over = false;
    queue_.After(absl::ToInt64Microseconds(duration), [&over] { over = true; });
    while (!over) queue_.RunNext();
  }

  int told_ = 0;
  EventQueue queue_;
  VirtualLoop loop_{queue_};
  std::unique_ptr<Refusals> refusals_ = std::make_unique<Refusals>(loop_);
  const int burst_ = static_cast<int>(Refusals::kBurst);
};

TEST_F(RefusalsTest, OfATenantThatAsksAgainAndAgainAreToldASecondLater) {
  EXPECT_EQ(ToldAtOnce(Of("acme"), burst_ + 100), burst_);
  EXPECT_EQ(ToldAtOnce(Of("other"), 10), 10) << "which did nothing";
  RunFor(Refusals::kHold - absl::Milliseconds(1));
  EXPECT_EQ(told_, burst_ + 10);
  RunFor(absl::Milliseconds(2));
  EXPECT_EQ(told_, burst_ + 10 + 100);
  EXPECT_EQ(ToldAtOnce(Of("acme"), 100), static_cast<int>(Refusals::kPerSecond)) << "a second's";
}

TEST_F(RefusalsTest, ComeInTheirOrderEachAfterItsTime) {
  ToldAtOnce(Of("acme"), burst_);
  ToldAtOnce(Of("acme"), 3);
  RunFor(absl::Milliseconds(10));
  ToldAtOnce(Of("acme"), 5);
  RunFor(Refusals::kHold - absl::Milliseconds(5));
  EXPECT_EQ(told_, burst_ + 3);
  RunFor(absl::Milliseconds(10));
  EXPECT_EQ(told_, burst_ + 3 + 5);
}

TEST_F(RefusalsTest, OfManyAtOnceComeAtAPace) {
  const int a_second = static_cast<int>(Refusals::kHeldPerSecond);
  ToldAtOnce(Of("acme"), burst_);
  EXPECT_EQ(ToldAtOnce(Of("acme"), 5 * a_second), 0);
  RunFor(absl::Seconds(3));
  EXPECT_NEAR(told_, burst_ + 3 * a_second, 1);
  ToldAtOnce(Of("other"), burst_ + 1);
  RunFor(Refusals::kHold + absl::Milliseconds(1));
  EXPECT_NEAR(told_, 2 * burst_ + 1 + 4 * a_second, 1) << "another tenant's is not behind them";
}

TEST_F(RefusalsTest, WaitNoLongerThanTheMost) {
  const int held = static_cast<int>(Refusals::kMostHeld);
  ToldAtOnce(Of("acme"), burst_ + held);
  RunFor(Refusals::kMostHold - absl::Milliseconds(1));
  EXPECT_LT(told_, burst_ + held);
  RunFor(absl::Milliseconds(2));
  EXPECT_EQ(told_, burst_ + held);
  const int before = told_;
  ToldAtOnce(Of("acme"), burst_ + 1);
  RunFor(Refusals::kHold + absl::Milliseconds(1));
  EXPECT_EQ(told_, before + burst_ + 1) << "none waits, so it is a second again";
}

TEST_F(RefusalsTest, OfOtherKindsAndOfStrangersAreToldAtOnce) {
  EXPECT_EQ(ToldAtOnce({.tenant = "stranger"}, 1000), 1000);
  EXPECT_EQ(ToldAtOnce(Of("acme"), 1000, absl::InvalidArgumentError("wrong")), 1000);
  EXPECT_EQ(ToldAtOnce(Of("acme"), 1), 1) << "those do not count";
}

TEST_F(RefusalsTest, AreHeldOnlySoMany) {
  const int held = static_cast<int>(Refusals::kMostHeld);
  EXPECT_EQ(ToldAtOnce(Of("acme"), burst_ + held + 7), burst_ + 7);
}

TEST_F(RefusalsTest, ThatAreHeldAtTheEndAreTold) {
  ToldAtOnce(Of("acme"), burst_ + 5);
  refusals_.reset();
  EXPECT_EQ(told_, burst_ + 5);
}

}  // namespace
}  // namespace baton
