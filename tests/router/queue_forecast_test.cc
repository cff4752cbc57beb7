#include "router/queue_forecast.h"

#include <gtest/gtest.h>

#include <random>

namespace baton {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(DrainRate, IsWhatLeavesWhileOthersWait) {
  for (const double gap : {0.0005, 0.05, 3.0}) {
    DrainRate rate;
    rate.SetWaiting(true, At(0));
    EXPECT_FALSE(rate.TokensPerSecond(At(1)).has_value()) << "nothing is known";
    for (int i = 1; i <= 100; ++i) rate.Left(300, At(gap * i));
    EXPECT_NEAR(*rate.TokensPerSecond(At(gap * 100)), 300 / gap, 1e-6 * 300 / gap);
    EXPECT_NEAR(*rate.TokensPerSecond(At(gap * 101)), 300 / gap, 1e-6 * 300 / gap)
        << "the next is not late yet";
  }
}

TEST(DrainRate, IsNotWhatComesWhileNobodyWaits) {
  DrainRate rate;
  rate.SetWaiting(true, At(0));
  for (int i = 1; i <= 100; ++i) rate.Left(100, At(i * 0.01));
  rate.SetWaiting(false, At(1));
  for (int i = 1; i <= 100; ++i) rate.Left(1, At(1 + i));
  EXPECT_NEAR(*rate.TokensPerSecond(At(101)), 10000, 1);
}

TEST(DrainRate, FollowsAChangeWithinTwoSecondsAndAStallAtOnce) {
  DrainRate rate;
  rate.SetWaiting(true, At(0));
  double now = 0;
  for (int i = 0; i < 1000; ++i) rate.Left(100, At(now += 0.01));
  for (int i = 0; i < 20; ++i) rate.Left(100, At(now += 0.1));
  EXPECT_LT(*rate.TokensPerSecond(At(now)), 5000) << "half way";
  for (int i = 0; i < 80; ++i) rate.Left(100, At(now += 0.1));
  EXPECT_NEAR(*rate.TokensPerSecond(At(now)), 1000, 100);
  const double before = *rate.TokensPerSecond(At(now));
  EXPECT_LT(*rate.TokensPerSecond(At(now + 2)), 0.6 * before);
  EXPECT_LT(*rate.TokensPerSecond(At(now + 20)), 0.15 * before);
  EXPECT_GT(*rate.TokensPerSecond(At(now + 20)), 0.05 * before) << "a stall is not for ever";
}

TEST(DrainRate, ForgetsWithIdleTime) {
  DrainRate rate;
  rate.SetWaiting(true, At(0));
  for (int i = 1; i <= 1000; ++i) rate.Left(100, At(i * 0.01));
  rate.SetWaiting(false, At(10));
  EXPECT_NEAR(*rate.TokensPerSecond(At(70)), 10000, 1) << "the best that is known";
  rate.SetWaiting(true, At(70));
  for (int i = 1; i <= 5; ++i) rate.Left(100, At(70 + i * 0.1));
  EXPECT_NEAR(*rate.TokensPerSecond(At(70.5)), 1000, 100) << "but new requests outweigh it";
}

TEST(DrainRate, IsRightForBurstsToo) {
  DrainRate rate;
  rate.SetWaiting(true, At(0));
  for (int i = 1; i <= 50; ++i) {
    for (int k = 0; k < 8; ++k) rate.Left(50, At(i * 0.2));
  }
  EXPECT_NEAR(*rate.TokensPerSecond(At(10)), 2000, 200);
}

TEST(DrainRate, TellsWhenTheNextIsDue) {
  DrainRate rate;
  EXPECT_EQ(rate.UntilNext(At(0)), absl::ZeroDuration()) << "nothing is known";
  rate.SetWaiting(true, At(0));
  for (int i = 1; i <= 100; ++i) rate.Left(300, At(0.5 * i));
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.UntilNext(At(50))), 0.5, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(rate.UntilNext(At(50.4))), 0.1, 1e-6);
  EXPECT_EQ(rate.UntilNext(At(52)), absl::ZeroDuration()) << "it is late";
}

TEST(Backlog, CountsWhatIsServedBeforeANewcomer) {
  Backlog backlog;
  backlog.Add(0, "heavy", 1000);
  backlog.Add(0, "heavy", 1000);
  backlog.Add(0, "small", 30);
  backlog.Add(-1, "urgent", 500);
  backlog.Add(1, "batch", 9000);
  EXPECT_EQ(backlog.Ahead(0, "heavy", 100), 2000u + 30 + 500);
  EXPECT_EQ(backlog.Ahead(0, "new", 100), 100u + 30 + 500) << "no more of another than its own";
  EXPECT_EQ(backlog.Ahead(-1, "new", 100), 100u);
  EXPECT_EQ(backlog.Ahead(2, "new", 1), 500u + 2000 + 30 + 9000);
  EXPECT_EQ(backlog.tokens(), 11530u);
  backlog.Remove(0, "heavy", 1000);
  backlog.Remove(-1, "urgent", 500);
  EXPECT_EQ(backlog.Ahead(0, "heavy", 100), 1030u);
}

// The forecast says for tenants' newcomers what FairQueue then does, to within a request of each.
TEST(Backlog, AgreesWithTheOrderOfTheQueue) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    FairQueue queue;
    Backlog backlog;
    constexpr uint64_t kLargest = 100;
    constexpr uint32_t kTenants = 5;
    for (uint64_t number = 1; number <= 200; ++number) {
      const std::string tenant(1 + random() % kTenants * random() % 2, 't');
      const auto priority = static_cast<int32_t>(random() % 3);
      const uint64_t tokens = 1 + random() % kLargest;
      queue.Push({.number = number, .priority = priority, .tenant = tenant, .tokens = tokens});
      backlog.Add(priority, tenant, tokens);
    }
    const std::string tenant(1 + random() % (kTenants + 1), 't');
    const auto priority = static_cast<int32_t>(random() % 3);
    const uint64_t forecast = backlog.Ahead(priority, tenant, 50);
    queue.Push({.number = 1000, .priority = priority, .tenant = tenant, .tokens = 50});
    uint64_t ahead = 0;
    for (; queue.Front()->number != 1000; queue.TakeFront()) ahead += queue.Front()->tokens;
    EXPECT_NEAR(static_cast<double>(ahead), static_cast<double>(forecast), kTenants * kLargest)
        << "seed " << seed;
  }
}

TEST(WhoIsTooLate, AreThoseThatEvenTwiceTheRateDoesNotReach) {
  FairQueue queue;
  for (uint64_t number = 1; number <= 100; ++number) {
    queue.Push({.number = number, .tenant = "", .tokens = 100});
  }
  const auto one_second = [](const FairQueue::Entry&) { return absl::Seconds(1); };
  // 1000 tokens a second: 20 are reached within a second at twice that.
  std::vector<uint64_t> late = WhoIsTooLate(queue, 1000, one_second);
  ASSERT_EQ(late.size(), 79u);
  EXPECT_EQ(late.front(), 22u);
  EXPECT_TRUE(WhoIsTooLate(queue, std::nullopt, one_second).empty());
  // Those that go make room for those behind them.
  const auto odd_have_none = [](const FairQueue::Entry& entry) {
    return entry.number % 2 == 1 ? absl::ZeroDuration() : absl::Seconds(1);
  };
  late = WhoIsTooLate(queue, 1000, odd_have_none);
  EXPECT_EQ(late.size(), 50u + 29u);
  EXPECT_EQ(WhoIsTooLate(queue, std::nullopt, odd_have_none).size(), 50u);
}

}  // namespace
}  // namespace baton
