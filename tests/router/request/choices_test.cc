#include "router/request/choices.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/rpc/status.h"
#include "tests/router/request/asked_actions.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

// Two choices of one request.
class ChoicesTest : public testing::Test {
 protected:
  static RequestSpec TwoChoices() {
    RequestSpec spec = MachineHarness::Spec(5);
    spec.sampling.set_n(2);
    return spec;
  }
  void Choose(uint32_t attempt, uint64_t decode_id = 2) {
    WorkersChosen chosen = MachineHarness::Chosen(true, true);
    chosen.attempt = attempt;
    chosen.decode->id = decode_id;
    choices_.On(chosen);
  }
  void Accept(uint32_t attempt) {
    DecodeMessage event{.attempt = attempt, .message = {}};
    event.message.mutable_accepted();
    choices_.On(event);
  }
  // The first token of a choice.
  void SendFirst(uint32_t attempt, uint32_t choice) {
    PrefillMessage event{.attempt = attempt, .message = {}};
    *event.message.mutable_first_token() = Token(0, 0, choice);
    choices_.On(event);
  }
  void PassTime() {
    request_.now = choices_.NextTimer();
    choices_.OnTimer();
  }

  RequestState request_{TwoChoices(), LetterTable(), RequestMachineOptions()};
  Choices choices_{request_};
};

TEST_F(ChoicesTest, AskForTheWorkersOfTheirFirstAttempt) {
  ASSERT_EQ(CountAsked<ChooseWorkers>(request_), 1);
  EXPECT_EQ(LastAsked<ChooseWorkers>(request_)->attempt, 1u);
  EXPECT_EQ(LastAsked<ChooseWorkers>(request_)->needs.choices, 2u);
  EXPECT_EQ(request_.timings.attempts(), 1u);
  EXPECT_TRUE(choices_.Runs(1));
  EXPECT_FALSE(choices_.Runs(2));
  EXPECT_TRUE(choices_.prompt_computed(2)) << "it does not run";
}

TEST_F(ChoicesTest, IgnoreTheEventsOfOtherAttempts) {
  Choose(1);
  request_.actions.clear();
  Choose(7);
  Accept(7);
  SendFirst(7, 0);
  choices_.On(DecodeEnded{7, kKilled});
  choices_.On(PrefillEnded{7, kKilled});
  choices_.On(NoneElsewhere{7});
  EXPECT_TRUE(request_.actions.empty());
  EXPECT_EQ(request_.breaks, 0u);
}

TEST_F(ChoicesTest, BeginAnewTogetherBeforeAnyHasAToken) {
  Choose(1);
  Accept(1);
  choices_.On(PrefillEnded{1, kKilled});
  ASSERT_EQ(CountAsked<ChooseWorkers>(request_), 2);
  const ChooseWorkers& ask = *LastAsked<ChooseWorkers>(request_);
  EXPECT_EQ(ask.attempt, 2u);
  EXPECT_EQ(ask.needs.choices, 2u);
  EXPECT_EQ(ask.needs.avoid, std::vector<uint64_t>{1});
  EXPECT_EQ(ask.needs.prefer_decode, 2u);
  EXPECT_TRUE(choices_.TakeForks().empty());
  EXPECT_EQ(request_.breaks, 1u);
  EXPECT_EQ(request_.timings.attempts(), 2u);
}

TEST_F(ChoicesTest, KeepTheCallThatHoldsPagesUntilTheNextAttemptHasReachedItsWorker) {
  Choose(1);
  Accept(1);
  choices_.On(PrefillEnded{1, kKilled});
  Choose(2);
  EXPECT_EQ(CountAsked<OpenDecode>(request_), 2);
  EXPECT_EQ(CountAsked<CancelDecode>(request_), 0);
  Accept(2);
  ASSERT_EQ(CountAsked<CancelDecode>(request_), 1);
  EXPECT_EQ(LastAsked<CancelDecode>(request_)->attempt, 1u);
  choices_.On(PrefillEnded{2, kKilled});
  PassTime();
  Choose(3, /*decode_id=*/9);
  EXPECT_EQ(LastAsked<CancelDecode>(request_)->attempt, 2u) << "another worker has none of them";
}

TEST_F(ChoicesTest, GoOnAloneOnceTheyHaveParted) {
  Choose(1);
  Accept(1);
  SendFirst(1, 0);
  EXPECT_FALSE(choices_.prompt_computed(1));
  SendFirst(1, 1);
  EXPECT_TRUE(choices_.prompt_computed(1));
  choices_.On(DecodeEnded{1, kKilled});
  EXPECT_TRUE(choices_.done());
  const std::vector<Choices> forks = choices_.TakeForks();
  ASSERT_EQ(forks.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(forks[i].Runs(i + 2));
    ASSERT_EQ(forks[i].attempt().choices.size(), 1u);
    EXPECT_EQ(forks[i].attempt().choices[0].choice, i);
    EXPECT_EQ(forks[i].attempt().choices[0].base, 1u);
  }
  EXPECT_EQ(LastAsked<ChooseWorkers>(request_)->needs.choices, 1u);
  EXPECT_TRUE(choices_.TakeForks().empty());
}

TEST_F(ChoicesTest, GoOnWithTheHedgedAttemptThatIsAcceptedFirst) {
  Choose(1);
  PassTime();
  EXPECT_EQ(LastAsked<ChooseWorkers>(request_)->needs.beside, 1u);
  Choose(2, /*decode_id=*/9);
  EXPECT_TRUE(choices_.Runs(1) && choices_.Runs(2));
  Accept(2);
  EXPECT_EQ(choices_.attempt().number, 2u);
  EXPECT_FALSE(choices_.Runs(1));
  EXPECT_EQ(LastAsked<CancelDecode>(request_)->attempt, 1u);
}

TEST_F(ChoicesTest, FailWhereNoWorkerTakesThemInTime) {
  PassTime();
  ASSERT_TRUE(request_.failed());
  EXPECT_EQ(ErrorReason(*request_.failure), kReasonNoReadyWorker);
  EXPECT_EQ(request_.now - request_.spec.received, request_.options.worker_timeout);
}

TEST(ChoicesInALongQueue, WaitForBusyWorkersWithoutUsingUpTheTimeOfAWorker) {
  RequestMachineOptions options;
  options.queue_time = absl::Minutes(10);
  RequestState request(MachineHarness::Spec(5), LetterTable(), options);
  Choices choices(request);
  const absl::Duration longest = options.queue_time + options.worker_timeout;
  EXPECT_EQ(choices.NextTimer(), request.now + longest) << "the first attempt";
  WorkersChosen chosen = MachineHarness::Chosen(true, true);
  chosen.attempt = 1;
  choices.On(chosen);
  EXPECT_EQ(choices.attempt().accept_by, request.now + longest)
      << "a decode worker may have no memory for as long";
  DecodeMessage accepted{.attempt = 1, .message = {}};
  accepted.message.mutable_accepted();
  choices.On(accepted);
  request.now += absl::Seconds(5);
  choices.On(PrefillEnded{1, kKilled});
  ASSERT_EQ(LastAsked<ChooseWorkers>(request)->attempt, 2u);
  EXPECT_EQ(choices.NextTimer(), request.now + longest) << "an attempt that follows a break";
  EXPECT_FALSE(request.why_it_waits.ok());
}

TEST_F(ChoicesTest, EndTheirCallsInWhateverStateTheyAre) {
  Choose(1);
  Accept(1);
  choices_.CancelCalls();
  EXPECT_EQ(LastAsked<CancelDecode>(request_)->attempt, 1u);
  EXPECT_EQ(LastAsked<CancelPrefill>(request_)->attempt, 1u);
  choices_.CancelCalls();
  EXPECT_EQ(CountAsked<CancelDecode>(request_), 1) << "they are over";
}

}  // namespace
}  // namespace baton
