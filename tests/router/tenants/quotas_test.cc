#include "router/tenants/quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
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
  // Why the request is refused, or "".
  std::string Reason(const Caller& caller, absl::Time now) {
    const auto use = quotas_.Begin(caller, now);
    EXPECT_EQ(use.ok(), !RetryDelay(use.status()).has_value());
    return ErrorReason(use.status());
  }

  Metrics metrics_{"router"};
  Quotas quotas_{metrics_};
};

TEST_F(QuotasTest, RequestsComeAtTheRateWithASecondsWorthAtOnce) {
  const Caller caller = Of("acme", {.requests_per_second = 5});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Reason(caller, kNow), "");
  const absl::Status refused = quotas_.Begin(caller, kNow).status();
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
}

TEST_F(QuotasTest, TokensAreChargedAsTheyAreUsedAndWhatIsOwedIsWaitedFor) {
  const Caller caller = Of("acme", {.tokens_per_minute = 600});
  auto use = quotas_.Begin(caller, kNow);
  ASSERT_TRUE(use.ok()) << use.status();
  use->ChargeUpTo(100, kNow);
  use->ChargeUpTo(100, kNow);
  EXPECT_EQ(Reason(caller, kNow), "") << "500 are left";
  use->ChargeUpTo(700, kNow);
  EXPECT_EQ(Reason(caller, kNow), "TENANT_TOKENS");
  EXPECT_EQ(RetryDelay(quotas_.Begin(caller, kNow).status()), absl::Milliseconds(10'100));
  EXPECT_EQ(Reason(caller, kNow + absl::Seconds(10)), "TENANT_TOKENS");
  EXPECT_EQ(Reason(caller, kNow + absl::Milliseconds(10'100)), "");
  EXPECT_THAT(metrics_.Scrape(), HasSubstr("tenant=\"acme\",model_name=\"\",role=\"router\"} 700"));
}

TEST_F(QuotasTest, AStreamIsGivenBackWhenItsRequestEnds) {
  const Caller caller = Of("acme", {.streams = 2});
  std::vector<Quotas::Use> uses;
  for (int i = 0; i < 2; ++i) uses.push_back(*quotas_.Begin(caller, kNow));
  EXPECT_EQ(Reason(caller, kNow), "TENANT_STREAMS");
  EXPECT_TRUE(quotas_.CountRequest(caller, kNow).ok()) << "it is no stream";
  uses[0].End();
  uses[0].End();
  uses.push_back(*quotas_.Begin(caller, kNow));
  EXPECT_EQ(Reason(caller, kNow), "TENANT_STREAMS");
  uses.clear();
  EXPECT_EQ(Reason(caller, kNow), "");
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
    auto use = quotas_.Begin(stranger, kNow);
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
