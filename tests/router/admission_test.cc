#include "router/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "common/rpc/status.h"
#include "router/request_errors.h"

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

// 100 requests of 100 tokens wait, 1000 tokens a second are served.
class AdmissionForecast : public testing::Test {
 protected:
  AdmissionForecast() {
    admission_.SetWaiting(true, kNow);
    for (int i = 0; i < 20; ++i) {
      auto ticket = admission_.Admit({.tenant = "heavy", .tokens = 100}, kNow);
      ticket->GotWorkers(kNow + i * absl::Milliseconds(100));
    }
    for (int i = 0; i < 100; ++i) {
      tickets_.push_back(*admission_.Admit({.tenant = "heavy", .tokens = 100}, kNow));
    }
  }
  const absl::Time now_ = kNow + absl::Milliseconds(1900);
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

// A queue in front of one worker that takes two prompts at a time and computes one, in virtual
// time, under Poisson arrivals of `load` times what it can compute, with a sweep every 100 ms.
class Overload {
 public:
  static constexpr double kSeconds = 60;
  struct Worker {
    double tokens_per_second = 20000;
    double objective = 1;  // seconds in the queue
  };

  explicit Overload(double load, uint32_t tenants = 1) : Overload(load, tenants, Worker()) {}
  Overload(double load, uint32_t tenants, const Worker& worker) : worker_(worker) {
    std::mt19937_64 random(7);
    const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    double next_arrival = 0, next_sweep = 0, computed_at = 1e9;
    std::vector<uint64_t> at_worker;
    uint64_t number = 0;
    while (now_ < kSeconds) {
      now_ = std::min({next_arrival, next_sweep, computed_at});
      if (now_ == computed_at) {
        at_worker.erase(at_worker.begin());
        computed_at = 1e9;
      } else if (now_ == next_arrival) {
        const uint64_t tokens = 20 + static_cast<uint64_t>(-180 * std::log1p(-uniform()));
        next_arrival = now_ - std::log1p(-uniform()) * 200 / (load * worker_.tokens_per_second);
        const std::string tenant(random() % tenants, 't');
        auto ticket = admission_.Admit({.tenant = tenant, .tokens = 200}, Time());
        if (!ticket.ok()) {
          ++refused_at_once_;
          continue;
        }
        ticket->SetTokens(tokens);
        queue_.Push({.number = ++number, .tenant = tenant, .tokens = tokens});
        waiting_.emplace(number, Request{*std::move(ticket), now_, tokens});
      } else {
        Sweep();
        next_sweep = now_ + 0.1;
      }
      while (!queue_.empty() && at_worker.size() < 2) {
        const uint64_t next = queue_.Front()->number;
        queue_.TakeFront();
        Request& request = waiting_.at(next);
        request.ticket.GotWorkers(Time());
        request.wait = now_ - request.received;
        waits_.push_back(request.wait);
        at_worker.push_back(next);
      }
      admission_.SetWaiting(!queue_.empty(), Time());
      if (computed_at > 1e8 && !at_worker.empty()) {
        const auto found = waiting_.find(at_worker[0]);
        computed_at = now_ + static_cast<double>(found->second.tokens) / worker_.tokens_per_second;
        if (found->second.wait <= worker_.objective)
          good_tokens_ += static_cast<double>(found->second.tokens);
        waiting_.erase(found);
      }
    }
    std::sort(waits_.begin(), waits_.end());
  }

  double goodput() const { return good_tokens_ / kSeconds / worker_.tokens_per_second; }
  double wait(double quantile) const {
    return waits_[static_cast<size_t>(quantile * static_cast<double>(waits_.size() - 1))];
  }
  double late_share() const {
    return static_cast<double>(refused_late_) /
           static_cast<double>(refused_late_ + refused_at_once_ + 1);
  }
  uint64_t refused() const { return refused_late_ + refused_at_once_; }

 private:
  struct Request {
    Admission::Ticket ticket;
    double received;
    uint64_t tokens;
    double wait = 0;
  };
  absl::Time Time() const { return kNow + absl::Seconds(now_); }
  void Sweep() {
    const auto late = WhoIsTooLate(
        queue_, admission_.TokensPerSecond(Time()), [&](const FairQueue::Entry& entry) {
          return absl::Seconds(waiting_.at(entry.number).received + worker_.objective - now_);
        });
    for (const uint64_t number : late) {
      queue_.Remove(number);
      waiting_.erase(number);
      ++refused_late_;
    }
  }

  const Worker worker_;
  double now_ = 0;
  Admission admission_{{.requests = 1024, .max_queue_time = absl::Seconds(worker_.objective)}};
  FairQueue queue_;
  std::map<uint64_t, Request> waiting_;
  std::vector<double> waits_;  // seconds, of those that got a worker
  double good_tokens_ = 0;
  uint64_t refused_at_once_ = 0, refused_late_ = 0;
};

TEST(AdmissionUnderLoad, ThreeTimesTheKneeLosesNoGoodputAndRefusesAtOnce) {
  for (const uint32_t tenants : {1u, 5u}) {
    const Overload overload(3, tenants);
    EXPECT_GE(overload.goodput(), 0.97) << "of what the worker can compute";
    EXPECT_LE(overload.wait(0.99), Overload::Worker().objective);
    EXPECT_LE(overload.late_share(), 0.005);
    EXPECT_GT(overload.wait(0.5), 0.3 * Overload::Worker().objective) << "the queue is used";
  }
}

// Of eight requests a second each is half of what one may wait, some are all of it: where it counts
// when the next is due.
TEST(AdmissionUnderLoad, WhereAWorkerTakesFewASecondMostAreRefusedAtOnceToo) {
  const Overload overload(3, 1, {.tokens_per_second = 1600, .objective = 0.25});
  EXPECT_GE(overload.goodput(), 0.9);
  EXPECT_LE(overload.late_share(), 0.1);
}

TEST(AdmissionUnderLoad, BelowTheKneeNobodyIsRefused) {
  EXPECT_EQ(Overload(0.5).refused(), 0u);
  EXPECT_EQ(Overload(0.9, 3).refused(), 0u);
  EXPECT_GT(Overload(0.9).goodput(), 0.85);
}

}  // namespace
}  // namespace baton
