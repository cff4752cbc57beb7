#include "router/dispatch/admission.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/rpc/status.h"
#include "router/request/errors.h"

namespace baton {
namespace {

const absl::Time kNow = absl::UnixEpoch();

Admission::Newcomer Of(uint64_t bytes, const std::string& tenant = "") {
  return {.tenant = tenant, .bytes = bytes};
}

TEST(Admission, RefusesMoreRequestsThanItsLimitUntilOneGoes) {
  Admission admission({.requests = 2, .bytes = 1000});
  auto first = admission.Admit(Of(1), kNow);
  auto second = admission.Admit(Of(1), kNow);
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refused = admission.Admit(Of(1), kNow).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelay(refused).has_value());
  first->Release();
  EXPECT_TRUE(admission.Admit(Of(1), kNow).ok());
}

TEST(Admission, RefusesMoreBytesThanItsLimitButNotALargeRequestAlone) {
  Admission admission({.requests = 10, .bytes = 100});
  {
    const auto large = admission.Admit(Of(500), kNow);
    ASSERT_TRUE(large.ok());
    EXPECT_EQ(admission.Admit(Of(1), kNow).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(admission.waiting_bytes(), 0u);
  EXPECT_TRUE(admission.Admit(Of(100), kNow).ok());
}

TEST(Admission, ABodyCountsAmongTheBytesUntilItIsRead) {
  Admission admission({.requests = 10, .bytes = 100});
  const auto ticket = admission.Admit(Of(40), kNow);
  Admission::Body body = admission.NewBody("");
  ASSERT_TRUE(body.Grow(30, kNow).ok());
  ASSERT_TRUE(body.Grow(20, kNow).ok());
  EXPECT_EQ(admission.waiting_bytes(), 90u) << "as it comes";
  Admission::Body other = admission.NewBody("");
  EXPECT_TRUE(RetryDelay(other.Grow(11, kNow)).has_value());
  EXPECT_FALSE(body.Grow(11, kNow).ok()) << "one that has begun is refused too";
  EXPECT_FALSE(admission.Admit(Of(11), kNow).ok());
  EXPECT_TRUE(other.Grow(0, kNow).ok()) << "what has no body waits for nobody";
  { const Admission::Body moved = std::move(body); }
  EXPECT_EQ(admission.waiting_bytes(), 40u);
}

TEST(Admission, ABodyThatIsAloneMayBeLongerThanTheLimit) {
  Admission admission({.requests = 10, .bytes = 100});
  Admission::Body body = admission.NewBody("acme");
  EXPECT_TRUE(body.Grow(90, kNow).ok());
  EXPECT_TRUE(body.Grow(90, kNow).ok());
  EXPECT_FALSE(admission.NewBody("other").Grow(1, kNow).ok());
}

TEST(Admission, ATenantCannotFillTheQueueByBodiesThatDoNotBecomeWhole) {
  Admission admission({.requests = 10, .bytes = 900});
  std::vector<Admission::Body> bodies;
  absl::Status refused;
  while (refused.ok()) {
    bodies.push_back(admission.NewBody("heavy"));
    refused = bodies.back().Grow(10, kNow);
  }
  EXPECT_EQ(admission.waiting_bytes(), 800u);
  EXPECT_TRUE(RetryDelay(refused).has_value());
  EXPECT_FALSE(admission.Admit(Of(10, "heavy"), kNow).ok()) << "its requests count with them";
  EXPECT_TRUE(admission.NewBody("other").Grow(50, kNow).ok());
  EXPECT_TRUE(admission.Admit(Of(50, "other"), kNow).ok());
  bodies.clear();
  EXPECT_EQ(admission.waiting_bytes(), 0u);
  EXPECT_TRUE(admission.NewBody("heavy").Grow(500, kNow).ok()) << "all of it was given back";
}

TEST(Admission, ARefusalNamesTheFlagThatBoundsTheQueue) {
  const auto names = [](const absl::Status& refused, const char* flag) {
    return absl::StrContains(std::string(refused.message()), flag);
  };
  for (const bool many : {true, false}) {
    Admission admission({.requests = many ? 9u : 1000u, .bytes = many ? 1000u : 90u});
    const char* flag = many ? "--max-waiting-requests is 9" : "--max-waiting-bytes is 90";
    std::vector<Admission::Ticket> tickets;
    absl::Status of_tenant;
    while (of_tenant.ok()) {
      auto ticket = admission.Admit(Of(10, "acme"), kNow);
      of_tenant = ticket.status();
      if (ticket.ok()) tickets.push_back(*std::move(ticket));
    }
    EXPECT_TRUE(names(of_tenant, " of this ") && names(of_tenant, flag)) << of_tenant;
    if (!many) {
      const absl::Status body = admission.NewBody("acme").Grow(5, kNow);
      EXPECT_TRUE(names(body, flag)) << body;
    }
    auto last = admission.Admit(Of(10, "other"), kNow);
    ASSERT_TRUE(last.ok()) << last.status();
    const absl::Status full = admission.Admit(Of(10, "third"), kNow).status();
    EXPECT_TRUE(!names(full, " of this ") && names(full, flag)) << full;
  }
}

TEST(Admission, ATicketGivesItselfBackOnceHoweverItMoves) {
  Admission admission({.requests = 10, .bytes = 100});
  std::vector<Admission::Ticket> tickets;
  for (uint64_t bytes : {1, 2, 3}) tickets.push_back(*admission.Admit(Of(bytes), kNow));
  Admission::Ticket moved = std::move(tickets[0]);
  tickets[0] = std::move(tickets[1]);
  moved.SetTokens(77);
  EXPECT_EQ(admission.waiting_requests(), 3u);
  EXPECT_EQ(admission.waiting_bytes(), 6u);
  EXPECT_EQ(admission.waiting_tokens(), 79u);
  moved.GotWorkers(kNow);
  moved.GotWorkers(kNow);
  EXPECT_EQ(admission.waiting_tokens(), 2u);
  EXPECT_EQ(admission.waiting_requests(), 3u) << "until a worker takes it up";
  moved.Release();
  moved.Release();
  moved.SetTokens(5);
  EXPECT_EQ(admission.waiting_bytes(), 5u);
  tickets.clear();
  EXPECT_EQ(admission.waiting_requests(), 0u);
  EXPECT_EQ(admission.waiting_tokens(), 0u);
}

TEST(Admission, OneTenantCannotFillTheQueue) {
  Admission admission({.requests = 90});
  std::vector<Admission::Ticket> tickets;
  for (auto ticket = admission.Admit(Of(1, "heavy"), kNow); ticket.ok();
       ticket = admission.Admit(Of(1, "heavy"), kNow)) {
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_EQ(tickets.size(), 80u);
  for (const char* tenant : {"", "b", "c", "d"}) {
    auto ticket = admission.Admit(Of(1, tenant), kNow);
    ASSERT_TRUE(ticket.ok()) << tenant;
    tickets.push_back(*std::move(ticket));
  }
}

TEST(Admission, ATenantCannotFillTheQueueByInventingUsersOrByLargeRequests) {
  for (const uint64_t bytes : {1, 100}) {
    Admission admission({.requests = 90, .bytes = 900});
    std::vector<Admission::Ticket> tickets;
    const auto admit = [&](const std::string& tenant) {
      auto ticket = admission.Admit(
          {.tenant = tenant, .user = std::to_string(tickets.size()), .bytes = bytes}, kNow);
      if (ticket.ok()) tickets.push_back(*std::move(ticket));
      return ticket.ok();
    };
    while (admit("heavy")) continue;
    EXPECT_EQ(tickets.size(), bytes == 1 ? 80u : 8u);
    EXPECT_TRUE(admit("other")) << bytes;
    tickets.clear();
    EXPECT_TRUE(admit("heavy")) << "all of it was given back";
  }
}

TEST(Admission, WithoutIdentityUsersShareTheQueueAsTenantsDo) {
  Admission admission({.requests = 90});
  std::vector<Admission::Ticket> tickets;
  for (const char* user : {"a", "b"}) {
    for (;;) {
      auto ticket = admission.Admit({.user = user, .bytes = 1}, kNow);
      if (!ticket.ok()) break;
      tickets.push_back(*std::move(ticket));
    }
  }
  EXPECT_EQ(tickets.size(), 80u + 9u);
}

// 100 requests of 100 tokens wait, 1000 tokens a second are served.
class AdmissionForecast : public testing::Test {
 protected:
  AdmissionForecast() {
    admission_.SetWaiting(true, kNow);
    for (int i = 0; i < 40; ++i) {
      auto ticket = admission_.Admit({.tenant = "heavy", .tokens = 100}, kNow);
      ticket->GotWorkers(kNow + i * absl::Milliseconds(100));
    }
    for (int i = 0; i < 100; ++i) {
      tickets_.push_back(*admission_.Admit({.tenant = "heavy", .tokens = 100}, kNow));
    }
  }
  const absl::Time now_ = kNow + absl::Milliseconds(3900);
  Admission admission_{{.requests = 1000, .max_queue_time = absl::Seconds(30)}};
  std::vector<Admission::Ticket> tickets_;
};

TEST_F(AdmissionForecast, RefusesWhoWouldNotGetAWorkerBeforeItsDeadline) {
  const auto admit = [&](double seconds_left, const char* tenant, int32_t priority = 0) {
    return admission_
        .Admit({.tenant = tenant,
                .priority = priority,
                .tokens = 100,
                .time_left = absl::Seconds(seconds_left)},
               now_)
        .status();
  };
  EXPECT_TRUE(admit(14, "heavy").ok());
  const absl::Status refused = admit(9, "heavy");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refused), kReasonQueueTime);
  EXPECT_NEAR(absl::ToDoubleSeconds(*RetryDelay(refused)), 10, 1.5) << "the wait as predicted";
  EXPECT_TRUE(admit(1, "light").ok()) << "it is not behind another's backlog";
  EXPECT_TRUE(admit(1, "heavy", -1).ok()) << "nor is what is urgent";
  EXPECT_FALSE(admit(9, "light", 1).ok()) << "what is not is";
  EXPECT_EQ(admission_.waiting_requests(), 100u);
}

TEST_F(AdmissionForecast, RefusesWhoWouldWaitLongerThanTheRouterAllows) {
  Admission::Newcomer newcomer{.tenant = "heavy", .tokens = 100};
  EXPECT_TRUE(admission_.Admit(newcomer, now_).ok());
  while (true) {
    auto ticket = admission_.Admit({.tenant = "heavy", .tokens = 1000}, now_);
    if (!ticket.ok()) break;
    tickets_.push_back(*std::move(ticket));
  }
  EXPECT_NEAR(static_cast<double>(admission_.waiting_tokens()), 24000, 2500) << "0.8 of 30 s";
  EXPECT_LE(*RetryDelay(admission_.Admit(newcomer, now_).status()), kMaxRetryDelay);
}

TEST_F(AdmissionForecast, SaysNothingWhileNobodyWaitsForABusyWorker) {
  admission_.SetWaiting(false, now_);
  EXPECT_TRUE(admission_.Admit({.tenant = "heavy", .time_left = absl::Milliseconds(1)}, now_).ok());
  EXPECT_EQ(admission_.PredictedWait(now_), absl::ZeroDuration());
}

TEST(Admission, ExpectsOfANewRequestWhatOthersGenerated) {
  Admission admission({});
  EXPECT_EQ(admission.ExpectedTokens(10, 5, 2), 20u);
  for (int i = 0; i < 500; ++i) admission.SawOutput(1000);
  EXPECT_NEAR(static_cast<double>(admission.ExpectedTokens(10, UINT32_MAX, 1)), 1010, 2);
}

}  // namespace
}  // namespace baton
