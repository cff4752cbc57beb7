#include "router/dispatch/queue_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace baton {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(DrainRate, IsWhatLeavesWhileOthersWait) {
  for (const double gap : {0.0005, 0.05, 3.0}) {
    DrainRate rate;
    rate.SetWaiting(true, At(0));
    EXPECT_FALSE(rate.TokensPerSecond(At(1)).has_value()) << "nothing is known";
    const int count = std::max(100, static_cast<int>(3 / gap));
    for (int i = 1; i <= count; ++i) rate.Left(300, At(gap * i));
    EXPECT_NEAR(*rate.TokensPerSecond(At(gap * count)), 300 / gap, 1e-6 * 300 / gap);
    EXPECT_NEAR(*rate.TokensPerSecond(At(gap * (count + 1))), 300 / gap, 1e-6 * 300 / gap)
        << "the next is not late yet";
  }
}

TEST(DrainRate, IsNotWhatComesWhileNobodyWaits) {
  DrainRate rate;
  rate.SetWaiting(true, At(0));
  for (int i = 1; i <= 300; ++i) rate.Left(100, At(i * 0.01));
  rate.SetWaiting(false, At(3));
  for (int i = 1; i <= 100; ++i) rate.Left(1, At(3 + i * 0.01));
  EXPECT_NEAR(*rate.TokensPerSecond(At(4)), 10000, 1);
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

// Some requests that wait from `at` on, and a pause of `idle` seconds behind them; its end.
double Burst(DrainRate& rate, std::mt19937& random, double at, double idle) {
  rate.SetWaiting(true, At(at));
  const double gap = std::pow(10.0, -1.0 * (random() % 4));
  for (uint32_t i = 0; i < 1 + random() % 300; ++i) rate.Left(1 + random() % 999, At(at += gap));
  rate.SetWaiting(false, At(at));
  return at + idle;
}

TEST(DrainRate, IsUnknownAgainAfterAPauseAsIfNothingHadBeenMeasured) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const double idle = 2.001 + std::pow(10.0, random() % 400 / 100.0 - 1);  // up to 1000 s
    DrainRate rate, fresh;
    double at = 0;
    for (int i = 0; i < 3; ++i) at = Burst(rate, random, at, i < 2 ? random() % 100 / 50.0 : idle);
    rate.SetWaiting(true, At(at));
    fresh.SetWaiting(true, At(at));
    EXPECT_FALSE(rate.TokensPerSecond(At(at + 1)).has_value()) << idle << " s";
    EXPECT_EQ(rate.UntilNext(At(at)), absl::ZeroDuration());
    for (int i = 0; i < 300; ++i) {
      at += random() % 100 * 0.001;
      const uint64_t tokens = 1 + random() % 999;
      rate.Left(tokens, At(at));
      fresh.Left(tokens, At(at));
      ASSERT_EQ(rate.TokensPerSecond(At(at + 0.01)), fresh.TokensPerSecond(At(at + 0.01)));
      ASSERT_EQ(rate.UntilNext(At(at + 0.01)), fresh.UntilNext(At(at + 0.01)));
    }
    EXPECT_TRUE(rate.TokensPerSecond(At(at)).has_value());
  }
}

TEST(DrainRate, IsWhatItWasAfterAShortPauseHoweverLateTheFirstIsThen) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    DrainRate without, with;
    double at = 0;
    for (int i = 0; i < 10; ++i) at = Burst(without, random, at, 0);
    with = without;
    without.SetWaiting(true, At(at));
    double later = at + 1.001 + random() % 998 * 0.001;
    with.SetWaiting(true, At(later));
    ASSERT_EQ(with.TokensPerSecond(At(later)), without.TokensPerSecond(At(at)));
    with.Left(1, At(later += random() % 5000 * 0.001));
    for (int i = 0; i < 20; ++i) {
      without.Left(100, At(at += 0.1));
      with.Left(100, At(later += 0.1));
    }
    ASSERT_NEAR(*with.TokensPerSecond(At(later)), *without.TokensPerSecond(At(at)), 0.001);
  }
}

TEST(DrainRate, IsMeasuredAcrossMomentsInWhichNobodyWaits) {
  DrainRate rate;
  for (int i = 0; i < 100; ++i) {
    rate.SetWaiting(true, At(i));
    rate.Left(100, At(i + 0.7));
    rate.SetWaiting(false, At(i + 0.7));
  }
  EXPECT_NEAR(*rate.TokensPerSecond(At(99.7)), 100 / 0.7, 1e-3);
}

// A worker that stands still for a moment is usual, and how late the first one is says nothing.
TEST(DrainRate, IsUnknownUntilAWindowOfItWasMeasured) {
  for (const double gap : {0.001, 0.05, 1.0, 5.0}) {
    DrainRate rate;
    rate.SetWaiting(true, At(0));
    double at = 7;
    rate.Left(100, At(at));
    const int window = std::max(8, static_cast<int>(std::lround(2 / gap)));
    for (int i = 1; i < 0.95 * window; ++i) {
      rate.Left(100, At(at += gap));
      ASSERT_FALSE(rate.TokensPerSecond(At(at + 1)).has_value()) << i << " times " << gap << " s";
      ASSERT_EQ(rate.UntilNext(At(at)), absl::ZeroDuration());
    }
    for (int i = 0; i < 0.1 * window; ++i) rate.Left(100, At(at += gap));
    EXPECT_NEAR(*rate.TokensPerSecond(At(at)), 100 / gap, 1e-6 * 100 / gap);
    EXPECT_NEAR(absl::ToDoubleSeconds(rate.UntilNext(At(at))), gap, 1e-6);
  }
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
  backlog.Add(0, {"heavy"}, 1000);
  backlog.Add(0, {"heavy"}, 1000);
  backlog.Add(0, {"small"}, 30);
  backlog.Add(-1, {"urgent"}, 500);
  backlog.Add(1, {"batch"}, 9000);
  EXPECT_EQ(backlog.Ahead(0, {"heavy"}, 100), 2000u + 30 + 500);
  EXPECT_EQ(backlog.Ahead(0, {"new"}, 100), 100u + 30 + 500) << "no more of another than its own";
  EXPECT_EQ(backlog.Ahead(-1, {"new"}, 100), 100u);
  EXPECT_EQ(backlog.Ahead(2, {"new"}, 1), 500u + 2000 + 30 + 9000);
  EXPECT_EQ(backlog.tokens(), 11530u);
  backlog.Remove(0, {"heavy"}, 1000);
  backlog.Remove(-1, {"urgent"}, 500);
  EXPECT_EQ(backlog.Ahead(0, {"heavy"}, 100), 1030u);
}

TEST(Backlog, CountsATenantOnceHoweverManyUsersItHas) {
  Backlog backlog;
  for (const char* user : {"a", "b", "c"}) backlog.Add(0, {"many", user}, 1000);
  EXPECT_EQ(backlog.Ahead(0, {"lone"}, 100), 100u);
  EXPECT_EQ(backlog.Ahead(0, {"many", "new"}, 100), 300u) << "so much of each of its users";
  EXPECT_EQ(backlog.Ahead(0, {"many", "a"}, 100), 1000u + 2 * 1000);
  backlog.Add(0, {"lone"}, 5000);
  EXPECT_EQ(backlog.Ahead(0, {"many", "new"}, 100), 300u + 400) << "and of the other as of them";
  for (const char* user : {"a", "b", "c"}) backlog.Remove(0, {"many", user}, 1000);
  backlog.Remove(0, {"lone"}, 5000);
  EXPECT_EQ(backlog.tokens(), 0u);
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
      backlog.Add(priority, {tenant}, tokens);
    }
    const std::string tenant(1 + random() % (kTenants + 1), 't');
    const auto priority = static_cast<int32_t>(random() % 3);
    const uint64_t forecast = backlog.Ahead(priority, {tenant}, 50);
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
