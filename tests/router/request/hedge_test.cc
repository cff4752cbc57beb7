#include "router/request/hedge.h"

#include <gtest/gtest.h>

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

class HedgeTest : public testing::Test {
 protected:
  HedgeTest() { request_.now = now_; }

  // Begins a hedged attempt beside attempt 1, which runs on the decode worker 2.
  void Begin(const WorkerNeeds& needs = {}) { hedge_.Begin(request_, needs, 1, 2); }
  void Choose() { hedge_.Choose(request_, MachineHarness::Chosen(true, true)); }
  template <typename Action>
  const Action* LastAction() const {
    return request_.actions.empty() ? nullptr : std::get_if<Action>(&request_.actions.back());
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  RequestState request_{
      MachineHarness::Spec(5), LetterTable(), {.hedged_accept_wait = absl::Milliseconds(250)}};
  Hedge hedge_;
};

TEST_F(HedgeTest, BeginsAfterItsWaitAndNeverWhereNoneIsPlanned) {
  EXPECT_EQ(hedge_.NextTimer(), absl::InfiniteFuture());
  hedge_.Plan(absl::Seconds(2), now_);
  EXPECT_EQ(hedge_.NextTimer(), now_ + absl::Seconds(2));
  EXPECT_FALSE(hedge_.running());
}

TEST_F(HedgeTest, AsksForAnotherWorkerThanThatOfTheAttemptBesideIt) {
  request_.last_attempt = 6;
  Begin({.prompt_tokens = 3, .avoid = {9}, .prefer_decode = 2});
  EXPECT_TRUE(hedge_.Asks(7));
  EXPECT_FALSE(hedge_.Asks(1) || hedge_.Is(1));
  ASSERT_NE(LastAction<ChooseWorkers>(), nullptr);
  const auto& [attempt, needs] = *LastAction<ChooseWorkers>();
  EXPECT_EQ(attempt, 7u);
  EXPECT_EQ(needs.beside, 1u);
  EXPECT_EQ(needs.avoid, (std::vector<uint64_t>{9, 2}));
  EXPECT_EQ(needs.prefer_decode, 0u);
  EXPECT_EQ(needs.prompt_tokens, 3u);
  EXPECT_EQ(hedge_.NextTimer(), now_ + absl::Milliseconds(250));
}

TEST_F(HedgeTest, ItsWorkerHasTheWholeWaitToAccept) {
  Begin();
  request_.now += absl::Milliseconds(200);
  Choose();
  EXPECT_TRUE(hedge_.Is(1));
  EXPECT_FALSE(hedge_.Asks(1)) << "it has its workers";
  EXPECT_EQ(hedge_.NextTimer(), request_.now + absl::Milliseconds(250));
}

TEST_F(HedgeTest, OneThatIsGivenUpIsCancelledAndTheNextWaitsTwiceAsLong) {
  hedge_.Plan(absl::Seconds(2), now_);
  for (const int seconds : {4, 8}) {
    Begin();
    Choose();
    hedge_.GiveUp(request_);
    ASSERT_NE(LastAction<CancelDecode>(), nullptr);
    EXPECT_EQ(LastAction<CancelDecode>()->attempt, request_.last_attempt);
    EXPECT_FALSE(hedge_.running());
    EXPECT_EQ(hedge_.NextTimer(), now_ + absl::Seconds(seconds));
  }
}

TEST_F(HedgeTest, WhatHasNoCallIsNotCancelled) {
  hedge_.Plan(absl::Seconds(2), now_);
  Begin();
  hedge_.GiveUp(request_);
  EXPECT_EQ(LastAction<CancelDecode>(), nullptr) << "it had no workers yet";
  Begin();
  Choose();
  hedge_.CallEnded(request_);
  EXPECT_EQ(LastAction<CancelDecode>(), nullptr) << "its call has ended";
  EXPECT_EQ(hedge_.NextTimer(), now_ + absl::Seconds(8));
}

TEST_F(HedgeTest, NoOtherComesAfterACancellation) {
  hedge_.Plan(absl::Seconds(2), now_);
  hedge_.Cancel(request_);
  EXPECT_EQ(hedge_.NextTimer(), absl::InfiniteFuture());
  Begin();
  Choose();
  hedge_.Cancel(request_);
  EXPECT_NE(LastAction<CancelDecode>(), nullptr);
  EXPECT_FALSE(hedge_.running());
  EXPECT_EQ(hedge_.NextTimer(), absl::InfiniteFuture());
}

TEST_F(HedgeTest, WhatIsTakenRunsOnWithoutIt) {
  Begin();
  Choose();
  const size_t asked = request_.actions.size();
  const HedgedAttempt taken = hedge_.Take();
  EXPECT_EQ(taken.number, 1u);
  ASSERT_TRUE(taken.workers.has_value());
  EXPECT_EQ(taken.workers->decode->id, MachineHarness::Chosen(true, true).decode->id);
  EXPECT_FALSE(hedge_.running());
  EXPECT_EQ(hedge_.NextTimer(), absl::InfiniteFuture());
  EXPECT_EQ(request_.actions.size(), asked) << "nothing is cancelled";
  EXPECT_DEATH(hedge_.Take(), "no hedged attempt has workers");
}

}  // namespace
}  // namespace baton
