// Admission in front of workers in virtual time: overload, bursts, pauses, and random loads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

#include "common/rpc/status.h"
#include "router/dispatch/admission.h"
#include "router/request/errors.h"
#include "tests/router/dispatch/queue_model.h"

namespace baton {
namespace {

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
  absl::Time now = absl::UnixEpoch();
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
