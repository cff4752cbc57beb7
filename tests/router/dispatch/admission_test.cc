#include "router/dispatch/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "absl/strings/match.h"

#include "common/rpc/status.h"
#include "router/request/errors.h"
#include "tests/router/dispatch/queue_model.h"

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

double Uniform(std::mt19937_64& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

// Poisson arrivals of `load` times what the worker can compute, once the rate is known.
class Overload {
 public:
  static constexpr double kBegin = 3, kEnd = 63;  // seconds

  explicit Overload(double load, uint32_t tenants = 1) : Overload(load, tenants, {}) {}
  Overload(double load, uint32_t tenants, const QueueModel::Options& options)
      : tokens_per_second_(options.tokens_per_second) {
    std::mt19937_64 random(7);
    std::vector<ModelArrival> arrivals;
    for (double at = 0; at < kEnd;) {
      const auto tokens = 20 + static_cast<uint64_t>(-180 * std::log1p(-Uniform(random, 0, 1)));
      arrivals.push_back({.at = at,
                          .tokens = tokens,
                          .about_tokens = 200,
                          .tenant = std::string(random() % tenants, 't')});
      at -= std::log1p(-Uniform(random, 0, 1)) * 200 / (load * tokens_per_second_);
    }
    const std::vector<ModelOutcome> outcomes = QueueModel(options).Run(arrivals, kEnd);
    for (size_t i = 0; i < arrivals.size(); ++i) {
      const ModelOutcome& outcome = outcomes[i];
      if (outcome.kind != ModelOutcome::kServed) ++refused_;
      if (arrivals[i].at < kBegin) continue;
      if (outcome.kind != ModelOutcome::kServed) {
        ++(outcome.kind == ModelOutcome::kRefusedLate ? refused_late_ : refused_at_once_);
        continue;
      }
      waits_.push_back(outcome.wait);
      if (outcome.wait <= options.max_queue_seconds) good_tokens_ += arrivals[i].tokens;
    }
    std::sort(waits_.begin(), waits_.end());
  }

  double goodput() const {
    return static_cast<double>(good_tokens_) / (kEnd - kBegin) / tokens_per_second_;
  }
  double wait(double quantile) const {
    return waits_[static_cast<size_t>(quantile * static_cast<double>(waits_.size() - 1))];
  }
  // The waits that refusals named.
  double late_share() const {
    return static_cast<double>(refused_late_) /
           static_cast<double>(refused_late_ + refused_at_once_ + 1);
  }
  uint64_t refused() const { return refused_; }  // from the beginning on

 private:
  const double tokens_per_second_;
  std::vector<double> waits_;  // seconds, of those that got a worker
  uint64_t good_tokens_ = 0;
  uint64_t refused_ = 0, refused_at_once_ = 0, refused_late_ = 0;
};

TEST(AdmissionUnderLoad, ThreeTimesTheKneeLosesNoGoodputAndRefusesAtOnce) {
  for (const uint32_t tenants : {1u, 5u}) {
    const Overload overload(3, tenants);
    EXPECT_GE(overload.goodput(), 0.97) << "of what the worker can compute";
    EXPECT_LE(overload.wait(0.99), 1) << "of the second that a request may wait";
    EXPECT_LE(overload.late_share(), 0.005);
    EXPECT_GT(overload.wait(0.5), 0.3) << "the queue is used";
  }
}

// At eight requests a second each is half of what one may wait, some are all of it: where it counts
// when the next is due.
TEST(AdmissionUnderLoad, WhereAWorkerTakesFewASecondMostAreRefusedAtOnceToo) {
  const Overload overload(3, 1, {.tokens_per_second = 1600, .max_queue_seconds = 0.25});
  EXPECT_GE(overload.goodput(), 0.9);
  EXPECT_LE(overload.late_share(), 0.1);
}

TEST(AdmissionUnderLoad, BelowTheKneeNobodyIsRefused) {
  EXPECT_EQ(Overload(0.5).refused(), 0u);
  EXPECT_EQ(Overload(0.9, 3).refused(), 0u);
  EXPECT_GT(Overload(0.9).goodput(), 0.85);
}

// Requests that come in bursts to a worker whose first prompt of each takes longer by chance.
struct Bursts {
  explicit Bursts(uint64_t seed) : random(seed) {
    options.tokens_per_second = std::exp(Uniform(random, std::log(500), std::log(20000)));
    options.max_queue_seconds = 1 + random() % 10;
  }

  // Returns when the worker would have computed all of it.
  double Add(double at, double longest_stall) {
    const double seconds = Uniform(random, 0, 1) * Uniform(random, 0, 3);
    std::vector<double> times(10 + random() % (1 + random() % 400));
    for (double& time : times) time = at + Uniform(random, 0, seconds);
    std::sort(times.begin(), times.end());
    double end = at;
    for (const double time : times) {
      const uint64_t tokens = 10 + random() % 50;
      arrivals.push_back({.at = time, .tokens = tokens, .about_tokens = tokens});
      end = std::max(end, time) + static_cast<double>(tokens) / options.tokens_per_second;
    }
    options.stalls.push_back({.at = at, .seconds = Uniform(random, 0, longest_stall)});
    return end + options.stalls.back().seconds;
  }

  std::mt19937_64 random;
  QueueModel::Options options;
  std::vector<ModelArrival> arrivals;
};

TEST(AdmissionAfterAPause, RefusesNobodyWhomAFreshRouterWouldServe) {
  uint64_t served = 0, refused = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Bursts bursts(seed);
    double end = 0;
    for (int i = 0; i < 4; ++i) end = bursts.Add(end + Uniform(bursts.random, 0, 2), 0.3);
    const size_t before = bursts.arrivals.size();
    const double pause = std::exp(Uniform(bursts.random, std::log(2.1), std::log(600)));
    bursts.Add(end + pause, 5);
    const auto outcomes = QueueModel(bursts.options).Run(bursts.arrivals);
    QueueModel::Options options = bursts.options;
    options.stalls = {options.stalls.back()};
    const auto fresh = QueueModel(options).Run(
        {bursts.arrivals.begin() + static_cast<std::ptrdiff_t>(before), bursts.arrivals.end()});
    for (size_t i = 0; i < fresh.size(); ++i) {
      ++(fresh[i].kind == ModelOutcome::kServed ? served : refused);
      ASSERT_EQ(outcomes[before + i].kind, fresh[i].kind)
          << "request " << i << " after " << pause << " s, seed " << seed;
    }
  }
  EXPECT_GT(served, 3000u);
  EXPECT_GT(refused, 300u);
}

// A forecast may be wrong by as much as a request is refused early.
TEST(AdmissionAfterAShortPause, RefusesNobodyWhoWouldWaitWellWithinItsTime) {
  constexpr double kSafe = 0.8 * 0.8;
  uint64_t refused = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Bursts bursts(seed);
    double end = 0;
    for (int i = 0; i < 5; ++i) end = bursts.Add(end + Uniform(bursts.random, 0, 2), 0.3);
    const auto outcomes = QueueModel(bursts.options).Run(bursts.arrivals);
    QueueModel::Options patient = bursts.options;
    patient.max_queue_seconds = 1e9;
    const auto truth = QueueModel(patient).Run(bursts.arrivals);
    for (size_t i = 0; i < truth.size(); ++i) {
      if (outcomes[i].kind == ModelOutcome::kServed || outcomes[i].time_was_up) continue;
      ++refused;
      ASSERT_GT(truth[i].wait, kSafe * bursts.options.max_queue_seconds)
          << "request " << i << ", seed " << seed;
    }
  }
  EXPECT_GT(refused, 300u);
}

// On a machine that is busy otherwise the first prompt may take long. That says nothing of the
// others, and whoever comes while they wait is served too.
TEST(FreshAdmission, RefusesNobodyBecauseTheFirstIsLate) {
  for (const double late : {0.3, 1.0, 5.0}) {
    std::vector<ModelArrival> arrivals;
    for (int i = 0; i < 48; ++i) arrivals.push_back({.at = 1, .tokens = 28, .about_tokens = 28});
    for (double at = 1.02; at < 10; at += 0.03) {
      arrivals.push_back({.at = at, .tokens = 28, .about_tokens = 28});
    }
    const auto outcomes = QueueModel({.tokens_per_second = 1400,  // 50 requests
                                      .max_queue_seconds = 10,
                                      .stalls = {{.at = 1, .seconds = late}}})
                              .Run(arrivals);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      EXPECT_EQ(outcomes[i].kind, ModelOutcome::kServed) << "request " << i << ", late " << late;
    }
  }
}

TEST(PredictedWait, IsFiniteHoweverLongNothingHappened) {
  std::mt19937_64 random(3);
  Admission admission({.requests = 1u << 20, .max_queue_time = absl::Seconds(1)});
  std::vector<Admission::Ticket> tickets;
  absl::Time now = kNow;
  uint64_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    now += absl::Seconds(std::exp(Uniform(random, -10, random() % 10 == 0 ? 15 : 0)));
    admission.SetWaiting(random() % 4 != 0, now);
    if (random() % 2 == 0 && !tickets.empty()) {
      const size_t which = random() % tickets.size();
      tickets[which].GotWorkers(now);
      tickets.erase(tickets.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_LE(admission.PredictedWait(now), absl::Hours(1));
    const uint64_t tokens = 1 + random() % (uint64_t{1} << (random() % 50));
    auto ticket = admission.Admit({.tenant = "", .tokens = tokens}, now);
    if (ticket.ok()) {
      tickets.push_back(*std::move(ticket));
      continue;
    }
    ++refused;
    const absl::Duration retry = RetryDelay(ticket.status()).value_or(absl::ZeroDuration());
    EXPECT_GE(retry, kMinRetryDelay);
    EXPECT_LE(retry, kMaxRetryDelay);
    EXPECT_FALSE(absl::StrContains(ticket.status().message(), "inf")) << ticket.status();
  }
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace baton
