// Who is served first and who is not served, from a router over real gRPC whose one prefill worker
// takes one prompt at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/router/router_fixture.h"

namespace baton {
namespace {

class QueueOrder : public RouterFixture {
 protected:
  // The worker takes two prompts; one of them stays for as long as the test.
  explicit QueueOrder(absl::Duration max_queue_time = absl::InfiniteDuration(),
                      absl::Duration worker_timeout = RequestMachineOptions{}.worker_timeout) {
    options_.admission.max_queue_time = max_queue_time;
    options_.runner.machine.worker_timeout = worker_timeout;
    AddPrefill();
    AddDecode();
    Start();
    workers_[0]->Behave({.before_first_token = absl::Hours(1)});
    for (grpc::ClientContext& context : blocking_) {
      blockers_.push_back(stub_->Generate(&context, Request("abc", 10)));
    }
    Eventually([&] { return workers_[0]->active_calls() == 2; });
    workers_[0]->Behave({.before_first_token = absl::Milliseconds(20)});
  }
  ~QueueOrder() override {
    Unblock(1);
    for (std::thread& client : clients_) client.join();
  }
  void Unblock(size_t which) {
    blocking_[which].TryCancel();
    blockers_[which]->Finish();
  }

  // Waits in the queue when this returns.
  void Submit(const std::string& name, const std::string& user, int32_t priority = 0) {
    const uint32_t before = router_->waiting_requests();
    clients_.emplace_back([=, this] {
      v1::GenerateRequest request = Request("abc", 10);
      request.set_user(user);
      request.set_priority(priority);
      const Answer answer = Generate(request);
      EXPECT_TRUE(answer.status.ok()) << answer.status;
      const std::lock_guard lock(mutex_);
      order_.push_back(name);
    });
    Eventually([&] { return router_->waiting_requests() == before + 1; });
  }
  // The names in the order in which they were answered, once all were.
  std::vector<std::string> Order() {
    for (std::thread& client : clients_) client.join();
    clients_.clear();
    return order_;
  }
  static size_t PlaceOf(const std::string& name, const std::vector<std::string>& order) {
    return static_cast<size_t>(std::find(order.begin(), order.end(), name) - order.begin());
  }

 private:
  grpc::ClientContext blocking_[2];
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> blockers_;
  std::vector<std::thread> clients_;
  std::mutex mutex_;
  std::vector<std::string> order_;
};

TEST_F(QueueOrder, AnUrgentRequestIsFirstAndATenantIsNotBehindAnothersBacklog) {
  for (int i = 0; i < 10; ++i) Submit("heavy", "heavy");
  Submit("light", "light");
  Submit("urgent", "heavy", -1);
  Submit("batch", "other", 1);
  Unblock(0);
  const std::vector<std::string> order = Order();
  ASSERT_EQ(order.size(), 13u);
  // The clients' threads may be late by one.
  EXPECT_LE(PlaceOf("urgent", order), 1u);
  EXPECT_LE(PlaceOf("light", order), 3u);
  EXPECT_GE(PlaceOf("batch", order), 11u);
}

TEST_F(QueueOrder, AClientThatHangsUpLeavesTheQueueAndCostsNothingMore) {
  const int calls = workers_[0]->total_calls();
  grpc::ClientContext context;
  const auto waits = stub_->Generate(&context, Request("abc", 10));
  Eventually([&] { return router_->waiting_requests() == 1; });
  EXPECT_GT(Metric("baton_router_queue_tokens"), 0);
  context.TryCancel();
  Eventually([&] { return router_->waiting_requests() == 0; });
  EXPECT_EQ(Metric("baton_router_queue_tokens"), 0);
  EXPECT_EQ(Metric("baton_router_queue_bytes"), 0);
  Unblock(0);
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
  EXPECT_EQ(workers_[0]->total_calls(), calls + 1) << "no worker received the request";
  waits->Finish();
}

class ShortResumeTimeout : public QueueOrder {
 protected:
  ShortResumeTimeout() : QueueOrder(absl::Minutes(10), absl::Milliseconds(1)) {}
};

TEST_F(ShortResumeTimeout, DoesNotEndTheWaitForAWorkerThatIsBusy) {
  Submit("patient", "");
  Submit("next", "");
  Unblock(0);
  EXPECT_EQ(Order().size(), 2u);
}

class ShortQueueTime : public QueueOrder {
 protected:
  ShortQueueTime() : QueueOrder(absl::Milliseconds(150)) {}
};

TEST_F(ShortQueueTime, WhoGetsNoWorkerInTimeIsRefusedAndTheNextIsServed) {
  const int calls = workers_[0]->total_calls();
  const absl::Status status = Generate(Request("abc", 10)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ErrorReason(status), kReasonQueueTime);
  EXPECT_EQ(GetErrorInfo(status)->stage, kStageQueue);
  EXPECT_TRUE(RetryDelay(status).has_value());
  EXPECT_EQ(workers_[0]->total_calls(), calls) << "no worker heard of it";
  Eventually([&] { return router_->waiting_requests() == 0; });
  Unblock(0);
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
}

TEST_F(ShortQueueTime, ADeadlineThatPassesInTheQueueIsADeadline) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(Generate(Request("abc", 10), &context).status.code(),
            absl::StatusCode::kDeadlineExceeded);
  Eventually([&] { return router_->waiting_requests() == 0; });
}

class AfterAPause : public QueueOrder {
 protected:
  AfterAPause() : QueueOrder(absl::Minutes(5)) {}
};

// The worker is slow to begin again, which says nothing of how fast it is.
TEST_F(AfterAPause, AllOfABurstAreServedThoughTheFirstWaitsLong) {
  LookBackOn(absl::Minutes(10));
  for (int i = 0; i < 12 && !HasFatalFailure(); ++i) Submit("any", "");
  Unblock(0);
  EXPECT_EQ(Order().size(), 12u);
}

class FullDecodeWorkers : public RouterFixture {
 protected:
  FullDecodeWorkers() {
    AddPrefill();
    AddDecode();
    AddDecode();
    Start();
  }
  void Accept(absl::Duration after) {
    for (const size_t decode : {1, 2}) workers_[decode]->Behave({.before_accept = after});
  }
};

// They take the prefill worker's places, which it could give to others.
TEST_F(FullDecodeWorkers, WhoWaitsForMemoryHoldsUpNobodyWhoseDecodeWorkerHasSome) {
  Accept(absl::Hours(1));
  Answer answers[kMaxQueuedPrompts];
  std::vector<std::thread> clients;
  for (Answer& answer : answers) {
    clients.emplace_back([this, &answer] { answer = Generate(Request("abc", 10)); });
  }
  Eventually([&] {
    return workers_[1]->active_calls() + workers_[2]->active_calls() == int{kMaxQueuedPrompts};
  });
  Accept(absl::ZeroDuration());
  const v1::GenerateRequest next = Request("def", 10);
  const Answer answer = Generate(next);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(next));
  for (std::thread& client : clients) client.join();
  for (const Answer& first : answers) EXPECT_TRUE(first.status.ok()) << first.status;
  ExpectNothingLeft();
}

}  // namespace
}  // namespace baton
