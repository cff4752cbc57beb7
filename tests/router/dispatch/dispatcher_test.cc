#include "router/dispatch/dispatcher.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

#include "common/base/clock.h"
#include "common/rpc/status.h"
#include "router/calls/thread_loop.h"
#include "tests/router/fleet/ready_worker.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

// One prefill worker, which takes two prompts at a time, and two decode workers.
class DispatcherTest : public testing::Test {
 protected:
  struct Request {
    RequestSpec spec;
    Admission::Ticket ticket;
  };

  DispatcherTest() { Make({.placement = {}, .no_worker_grace = absl::InfiniteDuration()}); }
  ~DispatcherTest() override {
    loop_->Run([this] { given_.clear(); });
    loop_.reset();  // no task of the dispatcher's runs after this
  }
  void Make(Dispatcher::Options options) {
    options.placement.disaggregation = Disaggregation::kAlways;
    dispatcher_ = std::make_unique<Dispatcher>(
        Dispatcher::Parts{.loop = *loop_,
                          .fleet = fleet_,
                          .view = view_,
                          .admission = admission_,
                          .place = Place},
        options,
        Dispatcher::Handlers{.on_placed =
                                 [this](uint64_t number, Assignment assignment) {
                                   EXPECT_NE(assignment.prefill, nullptr);
                                   EXPECT_NE(assignment.decode, nullptr);
                                   order_.push_back(number);
                                   const uint32_t attempt = assignment.attempt;
                                   given_.emplace(std::pair(number, attempt),
                                                  std::move(assignment));
                                 },
                             .on_given_up =
                                 [this](uint64_t number, const absl::Status& why) {
                                   given_up_[number] = why;
                                   dispatcher_->Leave(number);
                                   if (!gave_up_.HasBeenNotified()) gave_up_.Notify();
                                 }});
  }
  static ChooseWorkers AskFor(uint32_t attempt) {
    return {.attempt = attempt, .needs = {.prompt_tokens = 32, .max_total_tokens = 64}};
  }
  void Enter(uint64_t number, int32_t priority = 0, absl::Time received = SteadyNow()) {
    Request& request = *(requests_[number] = std::make_unique<Request>());
    request.spec.prompt_token_ids.assign(32, 7);
    request.spec.priority = priority;
    request.spec.received = received;
    request.spec.deadline = absl::InfiniteFuture();
    request.ticket = *admission_.Admit({.tenant = ""}, SteadyNow());
    dispatcher_->Enter(number, request.spec, request.ticket);
  }
  void EnterAndAsk(uint64_t number, int32_t priority = 0) {
    Enter(number, priority);
    dispatcher_->Ask(number, AskFor(1));
  }

  std::unique_ptr<ThreadLoop> loop_ = std::make_unique<ThreadLoop>();
  Admission admission_{Admission::Limits{}};
  Fleet fleet_{*loop_};
  FleetView view_;
  ReadyWorker prefill_{*loop_, fleet_, WORKER_ROLE_PREFILL};
  ReadyWorker decode_{*loop_, fleet_, WORKER_ROLE_DECODE};
  ReadyWorker other_decode_{*loop_, fleet_, WORKER_ROLE_DECODE};
  std::map<uint64_t, std::unique_ptr<Request>> requests_;
  std::unique_ptr<Dispatcher> dispatcher_;
  // What the dispatcher said; on the loop's thread.
  std::vector<uint64_t> order_;
  std::map<std::pair<uint64_t, uint32_t>, Assignment> given_;  // [number, attempt]
  std::map<uint64_t, absl::Status> given_up_;
  absl::Notification gave_up_;
};

TEST_F(DispatcherTest, AnswersAnAskWithWorkersAndTheirLease) {
  loop_->Run([this] {
    EnterAndAsk(1);
    EXPECT_TRUE(order_.empty()) << "from inside of Ask";
    EXPECT_EQ(admission_.waiting_tokens(), 64u);
  });
  loop_->Run([this] {
    ASSERT_EQ(order_, (std::vector<uint64_t>{1}));
    const Assignment& assignment = given_.at({1, 1});
    EXPECT_EQ(assignment.attempt, 1u);
    EXPECT_EQ(assignment.prefill, &prefill_.worker());
    EXPECT_EQ(assignment.lease.terms().computed_tokens, 32u);
    EXPECT_EQ(prefill_.seen().own_prompts, 1u);
    EXPECT_EQ(admission_.waiting_tokens(), 0u);
  });
}

TEST_F(DispatcherTest, WhoFindsNoRoomIsPlacedInTurnWhenALeaseIsGivenBack) {
  loop_->Run([this] {
    for (uint64_t number = 1; number <= 4; ++number) EnterAndAsk(number);
    EnterAndAsk(5, -1);
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{5, 1}));
    given_.erase({5, 1});
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{5, 1, 2}));
    given_.clear();
    dispatcher_->PlaceSoon();
  });
  loop_->Run([this] { EXPECT_EQ(order_, (std::vector<uint64_t>{5, 1, 2, 3, 4})); });
}

TEST_F(DispatcherTest, WhoOpensAloneIsPlacedBesideNobodyAndNobodyBesideIt) {
  loop_->Run([this] {
    EnterAndAsk(1);
    dispatcher_->PlaceWaiting();
    Enter(2);
    ChooseWorkers alone = AskFor(1);
    alone.needs.alone = true;
    dispatcher_->Ask(2, alone);
    EnterAndAsk(3);
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{1})) << "the prefill worker has a prompt";
    given_.at({1, 1}).lease.PromptComputed();
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{1, 2}));
    EXPECT_TRUE(given_.at({2, 1}).lease.terms().alone);
    given_.at({2, 1}).lease.PromptComputed();
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{1, 2, 3}));
  });
}

TEST_F(DispatcherTest, EveryAskOfARequestIsAnswered) {
  loop_->Run([this] {
    Enter(1);
    for (uint32_t attempt = 1; attempt <= 3; ++attempt) dispatcher_->Ask(1, AskFor(attempt));
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{1, 1}));
    given_.clear();
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_.size(), 3u);
    EXPECT_EQ(given_.begin()->second.attempt, 3u);
  });
}

TEST_F(DispatcherTest, WhoHasLeftIsNotPlaced) {
  loop_->Run([this] {
    EnterAndAsk(1);
    EnterAndAsk(2);
    dispatcher_->Leave(1);
    dispatcher_->Ask(1, AskFor(2));
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{2}));
  });
}

TEST_F(DispatcherTest, WhoNoReadyWorkerCouldServeStandsAsideUntilOneCan) {
  loop_->Run([this] {
    Enter(1);
    ChooseWorkers longer = AskFor(1);
    longer.needs.max_total_tokens = 1001;
    dispatcher_->Ask(1, longer);
    EnterAndAsk(2);
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{2}));
    prefill_.SetReady(false);
    decode_.SetReady(false);
    other_decode_.SetReady(false);
    prefill_.worker().seen.max_model_len = decode_.worker().seen.max_model_len = 2000;
    prefill_.SetReady(true);
    decode_.SetReady(true);
    dispatcher_->PlaceWaiting();
    EXPECT_EQ(order_, (std::vector<uint64_t>{2, 1}));
  });
}

TEST_F(DispatcherTest, WhoFindsNoReadyWorkerWithinTheGraceIsGivenUp) {
  loop_->Run([this] {
    Make({.placement = {}, .no_worker_grace = absl::ZeroDuration()});
    prefill_.SetReady(false);
    EnterAndAsk(1);
    Enter(2);
    ChooseWorkers resumed = AskFor(1);
    resumed.needs.resumed = true;
    dispatcher_->Ask(2, resumed);
    dispatcher_->PlaceWaiting();
    ASSERT_EQ(given_up_.size(), 1u) << "who was served before waits on";
    EXPECT_EQ(ErrorReason(given_up_.at(1)), kReasonNoReadyWorker);
  });
}

TEST_F(DispatcherTest, AResumedRequestIsGivenUpOnceNoWorkerWasReadyForItsOwnGrace) {
  loop_->Run([this] {
    Make({.placement = {},
          .no_worker_grace = absl::InfiniteDuration(),
          .resume_grace = absl::ZeroDuration()});
    ChooseWorkers resumed = AskFor(1);
    resumed.needs.resumed = true;
    EnterAndAsk(1);
    EnterAndAsk(2);
    dispatcher_->PlaceWaiting();
    Enter(3);
    dispatcher_->Ask(3, resumed);
    dispatcher_->PlaceWaiting();
    EXPECT_TRUE(given_up_.empty()) << "it waits for a worker that is busy";
    prefill_.SetReady(false);
    dispatcher_->PlaceWaiting();
    ASSERT_EQ(given_up_.size(), 1u);
    EXPECT_EQ(ErrorReason(given_up_.at(3)), kReasonNoReadyWorker);
  });
}

TEST_F(DispatcherTest, WhoWillGetNoWorkerInTimeIsGivenUp) {
  loop_->Run([this] {
    EnterAndAsk(1);
    EnterAndAsk(2);
    Enter(3, 0, SteadyNow() - absl::Hours(1));
    dispatcher_->Ask(3, AskFor(1));
    EnterAndAsk(4);
    dispatcher_->PlaceWaiting();
  });
  gave_up_.WaitForNotification();
  loop_->Run([this] {
    ASSERT_EQ(given_up_.size(), 1u);
    EXPECT_EQ(ErrorReason(given_up_.at(3)), kReasonQueueTime);
    EXPECT_NE(given_up_.at(3).message().find("--max-queue-time (10s)"), absl::string_view::npos)
        << given_up_.at(3);
  });
}

TEST_F(DispatcherTest, ElsewhereIsAWorkerWithRoomNowThatIsNotAvoidedAndThePromptLeavesItsPlace) {
  loop_->Run([this] {
    EnterAndAsk(1);
    dispatcher_->PlaceWaiting();
    Assignment& first = given_.at({1, 1});
    ChooseWorkers ask = AskFor(2);
    ask.needs.beside = 1;
    ask.needs.avoid = {first.decode->id};
    const auto second = dispatcher_->TryElsewhere(1, ask, &first.lease);
    ASSERT_TRUE(second.has_value());
    EXPECT_NE(second->decode, first.decode);
    EXPECT_EQ(prefill_.seen().own_postponed, 1u);
    ask.needs.avoid.push_back(second->decode->id);
    EXPECT_FALSE(dispatcher_->TryElsewhere(1, ask, &first.lease).has_value());
  });
}

TEST_F(DispatcherTest, NobodyGoesElsewhereBeforeThoseThatHaveNoWorkersYet) {
  loop_->Run([this] {
    EnterAndAsk(1);
    dispatcher_->PlaceWaiting();
    EnterAndAsk(2);
    ChooseWorkers ask = AskFor(2);
    ask.needs.beside = 1;
    EXPECT_FALSE(dispatcher_->TryElsewhere(1, ask, nullptr).has_value());
    dispatcher_->PlaceWaiting();
    EXPECT_TRUE(dispatcher_->TryElsewhere(1, ask, &given_.at({2, 1}).lease).has_value());
  });
}

TEST_F(DispatcherTest, ARequestWaitsBesideOthersUntilTheOnlyLinkThatItHasSpentHasRested) {
  const auto ask = [this](uint32_t attempt, absl::Time rests_until) {
    ChooseWorkers asked = AskFor(attempt);
    asked.needs.resumed = true;
    asked.needs.spent_links = {
        {.prefill = prefill_.id(), .decode = other_decode_.id(), .rests_until = rests_until}};
    return asked;
  };
  loop_->Run([&] {
    decode_.SetReady(false);
    Make({.placement = {}, .resume_grace = absl::InfiniteDuration()});
    Enter(1);
    dispatcher_->Ask(1, ask(2, loop_->Now() + absl::Hours(1)));
    EnterAndAsk(2);
  });
  loop_->Run([&] {
    EXPECT_EQ(order_, (std::vector<uint64_t>{2})) << "others take the link";
    Enter(3);
    dispatcher_->Ask(3, ask(2, loop_->Now()));
  });
  loop_->Run([&] {
    EXPECT_EQ(order_, (std::vector<uint64_t>{2, 3}));
    EXPECT_TRUE(given_up_.empty());
  });
}

TEST_F(DispatcherTest, ARequestWhoseOnlyLinkFailsForGoodIsGivenUpSoon) {
  loop_->Run([this] {
    decode_.SetReady(false);
    Make({.placement = {},
          .no_worker_grace = absl::ZeroDuration(),
          .resume_grace = absl::InfiniteDuration()});
    Enter(1);
    ChooseWorkers ask = AskFor(3);
    ask.needs.resumed = true;
    ask.needs.spent_links = {{.prefill = prefill_.id(),
                              .decode = other_decode_.id(),
                              .rests_until = absl::InfiniteFuture()}};
    dispatcher_->Ask(1, ask);
  });
  loop_->Run([this] { EXPECT_EQ(given_up_.count(1), 1u); });
}

}  // namespace
}  // namespace baton
