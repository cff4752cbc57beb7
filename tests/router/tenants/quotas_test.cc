#include "router/tenants/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "common/rpc/status.h"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::Time kNow = absl::UnixEpoch();

class QuotasTest : public testing::Test {
 protected:
  static Caller Of(const std::string& tenant, const Tenant& limits) {
    return {.tenant = tenant, .declared = true, .limits = limits};
  }
  absl::StatusOr<Quotas::Use> Begin(const Caller& caller, absl::Time now, Quotas::Ask ask = {}) {
    absl::StatusOr<std::vector<Quotas::Use>> uses = quotas_.Begin(caller, {&ask, 1}, now);
    if (!uses.ok()) return uses.status();
    EXPECT_EQ(uses->size(), 1u);
    return std::move(uses->front());
  }
  // Why the request is refused, or "".
  std::string Reason(const Caller& caller, absl::Time now, Quotas::Ask ask = {}) {
    const auto use = Begin(caller, now, ask);
    EXPECT_EQ(use.ok(), !RetryDelay(use.status()).has_value());
    return ErrorReason(use.status());
  }

  Metrics metrics_{"router"};
  Quotas quotas_{metrics_};
};

TEST_F(QuotasTest, RequestsComeAtTheRateWithASecondsWorthAtOnce) {
  const Caller caller = Of("acme", {.requests_per_second = 5});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Reason(caller, kNow), "");
  const absl::Status refused = Begin(caller, kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused), "TENANT_REQUESTS");
  EXPECT_EQ(RetryDelay(refused), absl::Milliseconds(200));
  EXPECT_EQ(ErrorReason(quotas_.CountRequest(caller, kNow)), "TENANT_REQUESTS");
  EXPECT_EQ(Reason(caller, kNow + absl::Milliseconds(200)), "");
  EXPECT_EQ(Reason(caller, kNow + absl::Milliseconds(200)), "TENANT_REQUESTS");
  EXPECT_EQ(Reason(Of("other", {.requests_per_second = 5}), kNow), "") << "each has its own";
}

TEST_F(QuotasTest, LookingWhetherThereIsRoomTakesNone) {
  const Caller caller = Of("acme", {.requests_per_second = 1});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(quotas_.Check(caller, kNow).ok());
  EXPECT_EQ(Reason(caller, kNow), "");
  EXPECT_EQ(ErrorReason(quotas_.Check(caller, kNow)), "TENANT_REQUESTS");
  EXPECT_TRUE(quotas_.Check({.tenant = "stranger"}, kNow).ok());
  const Caller reader = Of("reader", {.requests_per_second = 1, .tokens_per_minute = 60});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(quotas_.CheckRequest(reader, kNow).ok());
    EXPECT_TRUE(quotas_.CheckTokenizing(reader, kNow).ok());
  }
  quotas_.ChargeText(reader, 60, kNow);
  EXPECT_TRUE(quotas_.CheckRequest(reader, kNow).ok());
  EXPECT_EQ(ErrorReason(quotas_.CheckTokenizing(reader, kNow)), "TENANT_TOKENS");
  EXPECT_TRUE(quotas_.CountRequest(reader, kNow).ok());
  EXPECT_EQ(ErrorReason(quotas_.CheckRequest(reader, kNow)), "TENANT_REQUESTS");
}

TEST_F(QuotasTest, TokensAreChargedAsTheyAreUsedAndWhatIsOwedIsWaitedFor) {
  const Caller caller = Of("acme", {.tokens_per_minute = 600});
  auto use = Begin(caller, kNow);
  ASSERT_TRUE(use.ok()) << use.status();
  use->ChargeUpTo(100, kNow);
  use->ChargeUpTo(100, kNow);
  EXPECT_EQ(Reason(caller, kNow), "") << "500 are left";
  use->ChargeUpTo(700, kNow);
  EXPECT_EQ(Reason(caller, kNow), "TENANT_TOKENS");
  EXPECT_EQ(RetryDelay(Begin(caller, kNow).status()), absl::Milliseconds(10'100));
  EXPECT_EQ(Reason(caller, kNow + absl::Seconds(10)), "TENANT_TOKENS");
  EXPECT_EQ(Reason(caller, kNow + absl::Milliseconds(10'100)), "");
  EXPECT_THAT(metrics_.Scrape(), HasSubstr("tenant=\"acme\",model_name=\"\",role=\"router\"} 700"));
}

TEST_F(QuotasTest, AStreamIsGivenBackWhenItsRequestEnds) {
  const Caller caller = Of("acme", {.streams = 2});
  std::vector<Quotas::Use> uses;
  for (int i = 0; i < 2; ++i) uses.push_back(*Begin(caller, kNow));
  EXPECT_EQ(Reason(caller, kNow), "TENANT_STREAMS");
  EXPECT_TRUE(quotas_.CountRequest(caller, kNow).ok()) << "it is no stream";
  uses[0].End();
  uses[0].End();
  uses.push_back(*Begin(caller, kNow));
  EXPECT_EQ(Reason(caller, kNow), "TENANT_STREAMS");
  uses.clear();
  EXPECT_EQ(Reason(caller, kNow), "");
}

TEST_F(QuotasTest, EachChoiceOfEachPromptIsAStream) {
  const Caller caller = Of("acme", {.streams = 4});
  absl::StatusOr<Quotas::Use> three = Begin(caller, kNow, {.streams = 3});
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(Reason(caller, kNow, {.streams = 2}), "TENANT_STREAMS");
  absl::StatusOr<Quotas::Use> one = Begin(caller, kNow);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(ErrorReason(quotas_.Check(caller, kNow)), "TENANT_STREAMS");
  three->End();
  const std::vector<Quotas::Ask> list = {{.streams = 2}, {.streams = 1}};
  const auto uses = quotas_.Begin(caller, list, kNow);
  ASSERT_TRUE(uses.ok()) << uses.status();
  EXPECT_EQ(uses->size(), 2u);
  EXPECT_EQ(Reason(caller, kNow), "TENANT_STREAMS");
}

TEST_F(QuotasTest, RequestsThatAloneExceedALimitAreToldTheirFieldAndTheLimitAndNotToComeAgain) {
  const Caller caller = Of("acme", {.requests_per_second = 3, .streams = 4});
  const std::vector<Quotas::Ask> choices = {{.streams = 5}};
  const std::vector<Quotas::Ask> prompts = {{.streams = 2}, {.streams = 3}};
  for (const auto& [asks, field] :
       {std::pair(choices, "sampling_params.n"), std::pair(prompts, "prompt")}) {
    const absl::Status refused = quotas_.Begin(caller, asks, kNow).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_EQ(ErrorReason(refused), "TENANT_STREAMS");
    EXPECT_EQ(RetryDelay(refused), std::nullopt);
    ASSERT_EQ(FieldViolations(refused).size(), 1u);
    EXPECT_EQ(FieldViolations(refused)[0].field, field);
    EXPECT_THAT(FieldViolations(refused)[0].description,
                testing::AllOf(HasSubstr("asks for 5 answers"), HasSubstr("may have 4")));
  }
  const absl::Status refused = quotas_.Begin(caller, std::vector<Quotas::Ask>(4), kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(ErrorReason(refused), "TENANT_REQUESTS");
  EXPECT_EQ(Reason(caller, kNow, {.streams = 4}), "") << "nothing was taken";
}

TEST_F(QuotasTest, TokensThatARunningRequestMayComeToAreReservedAndSettledAtItsEnd) {
  const Caller caller = Of("acme", {.tokens_per_minute = 600});
  absl::StatusOr<Quotas::Use> first = Begin(caller, kNow, {.streams = 2, .tokens = 400});
  ASSERT_TRUE(first.ok()) << first.status();
  first->ChargeUpTo(100, kNow);
  absl::StatusOr<Quotas::Use> second = Begin(caller, kNow, {.tokens = 200});
  ASSERT_TRUE(second.ok()) << "200 are left: " << second.status();
  EXPECT_EQ(Reason(caller, kNow), "TENANT_TOKENS") << "the first may still use 300 more";
  EXPECT_THAT(metrics_.Scrape(), HasSubstr("tenant=\"acme\",model_name=\"\",role=\"router\"} 100"))
      << "what is reserved is not used";
  first->End();
  second->ChargeUpTo(500, kNow);  // more than it asked for
  second->End();
  EXPECT_EQ(Reason(caller, kNow), "TENANT_TOKENS") << "600 are used";
  EXPECT_EQ(Reason(caller, kNow + absl::Milliseconds(100)), "") << "which is one token";
}

TEST_F(QuotasTest, ARequestReservesNoMoreThanAMinutesTokens) {
  const Caller caller = Of("acme", {.tokens_per_minute = 600});
  {
    const auto use = Begin(caller, kNow, {.tokens = 1'000'000});
    ASSERT_TRUE(use.ok()) << use.status();
    EXPECT_EQ(RetryDelay(Begin(caller, kNow).status()), absl::Milliseconds(100));
  }
  EXPECT_EQ(Reason(caller, kNow, {.tokens = 600}), "");
}

TEST_F(QuotasTest, WhateverIsTakenAndGivenBackNoTenantHasMoreThanItsStreamsAndAllComesBack) {
  constexpr uint32_t kStreams = 7;
  const Caller caller = Of("acme", {.streams = kStreams});
  std::mt19937 random(20261129);
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  std::vector<std::pair<Quotas::Use, uint32_t>> held;  // with its streams
  uint64_t taken = 0;
  int granted = 0;
  for (int step = 0; step < 20000; ++step) {
    if (!held.empty() && below(2) == 0) {
      auto& gone = held[below(static_cast<uint32_t>(held.size()))];
      taken -= gone.second;
      std::swap(gone, held.back());
      held.pop_back();
      continue;
    }
    std::vector<Quotas::Ask> asks(1 + below(3));
    uint64_t wanted = 0;
    for (Quotas::Ask& ask : asks) wanted += ask.streams = 1 + below(4);
    auto uses = quotas_.Begin(caller, asks, kNow);
    ASSERT_EQ(uses.ok(), taken + wanted <= kStreams) << taken << " " << wanted << uses.status();
    ASSERT_EQ(absl::IsInvalidArgument(uses.status()), wanted > kStreams) << uses.status();
    if (!uses.ok()) continue;
    ++granted;
    taken += wanted;
    for (size_t i = 0; i < asks.size(); ++i) {
      held.emplace_back(std::move((*uses)[i]), asks[i].streams);
    }
  }
  EXPECT_GT(granted, 1000);
  held.clear();
  EXPECT_EQ(Reason(caller, kNow, {.streams = kStreams}), "");
}

TEST_F(QuotasTest, WhateverRunsATenantUsesNoMoreTokensThanItsLimitAndOneRequestsOverAll) {
  constexpr uint32_t kLimit = 600;
  constexpr uint32_t kMost = 300;  // tokens of a request
  const Caller caller = Of("acme", {.tokens_per_minute = kLimit});
  struct Running {
    Quotas::Use use;
    uint32_t most = 0;
    uint32_t used = 0;
  };
  std::mt19937 random(20261129);
  const auto below = [&](uint32_t end) { return static_cast<uint32_t>(random() % end); };
  std::vector<Running> running;
  absl::Time now = kNow;
  double used = 0;
  int granted = 0, refused = 0;
  for (int step = 0; step < 20000; ++step) {
    now += absl::Milliseconds(below(300));
    if (running.empty() || below(4) == 0) {
      const uint32_t most = 1 + below(kMost);
      auto use = Begin(caller, now, {.tokens = most});
      ++(use.ok() ? granted : refused);
      if (use.ok()) running.push_back({.use = *std::move(use), .most = most});
      continue;
    }
    Running& one = running[below(static_cast<uint32_t>(running.size()))];
    const uint32_t more = std::min(below(20), one.most - one.used);
    one.used += more;
    used += more;
    one.use.ChargeUpTo(one.used, now);
    ASSERT_LE(used, kLimit + kMost + absl::ToDoubleSeconds(now - kNow) * kLimit / 60);
    if (one.used < one.most && below(10) != 0) continue;
    std::swap(one, running.back());
    running.pop_back();
  }
  EXPECT_GT(granted, 100);
  EXPECT_GT(refused, 100);
  running.clear();
  now += absl::Minutes(2);
  EXPECT_EQ(Reason(caller, now, {.tokens = kLimit}), "");
  const auto all = Begin(caller, now, {.tokens = kLimit});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(RetryDelay(Begin(caller, now).status()), absl::Milliseconds(100));
}

TEST_F(QuotasTest, ALimitThatChangesCountsAtOnce) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Reason(Of("acme", {}), kNow), "");
  EXPECT_EQ(Reason(Of("acme", {.requests_per_second = 1}), kNow), "");
  EXPECT_EQ(Reason(Of("acme", {.requests_per_second = 1}), kNow), "TENANT_REQUESTS");
  EXPECT_EQ(Reason(Of("acme", {}), kNow + absl::Milliseconds(1)), "");
}

TEST_F(QuotasTest, WhomTheFileDoesNotDeclareIsNeitherLimitedNorNamed) {
  const Caller stranger{.tenant = "stranger", .declared = false, .limits = {}};
  std::vector<Quotas::Use> uses;
  for (int i = 0; i < 1000; ++i) {
    auto use = Begin(stranger, kNow);
    ASSERT_TRUE(use.ok());
    uses.push_back(*std::move(use));
    uses.back().ChargeUpTo(1000, kNow);
  }
  EXPECT_THAT(metrics_.Scrape(), Not(HasSubstr("stranger")));
}

TEST_F(QuotasTest, RefusalsAreCountedByTenantAndReason) {
  const Caller caller = Of("acme", {.requests_per_second = 1});
  for (int i = 0; i < 4; ++i) Reason(caller, kNow);
  EXPECT_THAT(
      metrics_.Scrape(),
      HasSubstr("reason=\"TENANT_REQUESTS\",tenant=\"acme\",model_name=\"\",role=\"router\"} 3"));
}

TEST_F(QuotasTest, OfManyTenantsThoseThatOweAreRemembered) {
  const Tenant limits{.requests_per_second = 0.001};
  const Caller debtor = Of("debtor", limits);
  EXPECT_EQ(Reason(debtor, kNow), "");
  for (size_t i = 0; i < 3 * kMaxTenants; ++i) {
    EXPECT_EQ(Reason(Of("t" + std::to_string(i), {.requests_per_second = 1000}),
                     kNow + static_cast<int>(i) * absl::Milliseconds(1)),
              "");
  }
  EXPECT_EQ(Reason(debtor, kNow + absl::Seconds(4)), "TENANT_REQUESTS");
}

}  // namespace
}  // namespace baton
