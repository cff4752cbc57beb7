#include "router/request/attempt.h"

#include <gtest/gtest.h>

#include <string>

#include "common/rpc/status.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();

// An attempt at both choices of a request, on the prefill worker and the decode worker.
class AttemptTest : public testing::Test {
 protected:
  AttemptTest() {
    RequestSpec spec = MachineHarness::Spec(5);
    spec.sampling.set_n(2);
    request_.emplace(std::move(spec), LetterTable(), RequestMachineOptions());
    attempt_.workers = MachineHarness::Chosen(true, true);
    attempt_.choices = {{.choice = 0}, {.choice = 1}};
    attempt_.state = Attempt::Prefilling{};
  }

  std::optional<RequestState> request_;
  Attempt attempt_;
};

TEST_F(AttemptTest, ItsStageIsThatOfTheWorkerWhoseAnswerIsAwaited) {
  attempt_.accept_by = kStart;
  EXPECT_EQ(std::string(attempt_.stage()), kStageQueue);
  attempt_.accept_by.reset();
  EXPECT_EQ(std::string(attempt_.stage()), kStagePrefill);
  attempt_.state = Attempt::Decoding{.exact = true};
  EXPECT_EQ(std::string(attempt_.stage()), kStageDecode);
}

TEST_F(AttemptTest, ItsPromptIsComputedOnceEveryChoiceHasATokenOfThisAttempt) {
  request_->Append(Token(0, 0, 0));
  EXPECT_FALSE(attempt_.PromptComputed(*request_));
  request_->Append(Token(0, 1, 1));
  EXPECT_TRUE(attempt_.PromptComputed(*request_));
  attempt_.choices = BeginChoices(*request_, attempt_.choices);
  EXPECT_FALSE(attempt_.PromptComputed(*request_)) << "those tokens are of the attempt before";
}

TEST_F(AttemptTest, ANewAttemptBeginsWithTheTokensThatThereAre) {
  request_->Append(Token(0, 0, 0));
  request_->Append(Token(1, 1, 0));
  attempt_.choices[0].prefill_sent = attempt_.choices[0].decode_finished = true;
  const std::vector<ChoiceProgress> begun = BeginChoices(*request_, attempt_.choices);
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].base, 2u);
  EXPECT_EQ(begun[0].next_from_decode, 2u);
  EXPECT_FALSE(begun[0].prefill_sent || begun[0].decode_finished);
  EXPECT_EQ(begun[1].choice, 1u);
  EXPECT_EQ(begun[1].base, 0u);
}

TEST_F(AttemptTest, HasEndedWithTheLastOfItsChoices) {
  request_->Append(LastToken(0, 26, v1::FINISH_REASON_STOP, 0));
  EXPECT_FALSE(attempt_.AllEnded(*request_));
  request_->Append(LastToken(0, 26, v1::FINISH_REASON_STOP, 1));
  EXPECT_TRUE(attempt_.AllEnded(*request_));
}

TEST_F(AttemptTest, FindsTheChoicesThatItComputes) {
  attempt_.choices = {{.choice = 3}, {.choice = 5}};
  EXPECT_EQ(attempt_.Find(5), 1u);
  EXPECT_FALSE(attempt_.Find(0).has_value());
}

TEST_F(AttemptTest, WaitsForTheAccountsOfWorkersWhoseCallsAreOpen) {
  attempt_.state = Attempt::Finishing{.exact = true, .finish_by = kStart};
  EXPECT_TRUE(attempt_.AllTold()) << "no call is open any more";
  attempt_.calls.decode_open = true;
  attempt_.choices[0].decode_finished = true;
  EXPECT_FALSE(attempt_.DecodeTold());
  EXPECT_FALSE(attempt_.AllTold());
  attempt_.choices[1].decode_finished = true;
  EXPECT_TRUE(attempt_.AllTold());
  attempt_.calls.prefill_open = true;
  EXPECT_FALSE(attempt_.AllTold());
  attempt_.calls.prefill_finished = true;
  EXPECT_TRUE(attempt_.AllTold());
}

TEST_F(AttemptTest, ADecodeWorkerThatGotNothingHasNothingToTell) {
  attempt_.state = Attempt::Finishing{.exact = std::nullopt, .finish_by = kStart};
  attempt_.calls.decode_open = true;
  EXPECT_FALSE(attempt_.decodes());
  EXPECT_TRUE(attempt_.AllTold());
  attempt_.workers.prefill.reset();
  EXPECT_TRUE(attempt_.decodes()) << "it computes the prompt itself";
  EXPECT_FALSE(attempt_.AllTold());
}

TEST_F(AttemptTest, ItsOutputsAreExactWhereNothingOnTheirWayWasNot) {
  const auto exact = [&](std::optional<bool> hand_off) {
    attempt_.state = Attempt::Finishing{.exact = hand_off, .finish_by = kStart};
    return attempt_.OutputsExact();
  };
  EXPECT_TRUE(exact(true));
  EXPECT_FALSE(exact(false)) << "the hand-off was not";
  attempt_.calls.decode_exact = false;
  EXPECT_FALSE(exact(true)) << "the decode worker's end says otherwise";
  attempt_.calls.decode_exact = true;
  attempt_.exact = false;
  EXPECT_FALSE(exact(true)) << "the tokens before it were not";
  attempt_.exact = true;
  // Without a hand-off the prefill worker's numerics decide.
  attempt_.workers.prefill_numerics = "cpu/f16";
  EXPECT_TRUE(exact(std::nullopt));
  attempt_.workers.prefill_numerics = "cuda-varying/f16";
  EXPECT_FALSE(exact(std::nullopt));
}

TEST_F(AttemptTest, ItsTimerIsTheEarliestOfWhatItWaitsFor) {
  EXPECT_EQ(attempt_.NextTimer(), absl::InfiniteFuture());
  attempt_.accept_by = kStart + absl::Seconds(5);
  EXPECT_EQ(attempt_.NextTimer(), kStart + absl::Seconds(5));
  attempt_.hedge.Plan(absl::Seconds(4), kStart);
  EXPECT_EQ(attempt_.NextTimer(), kStart + absl::Seconds(4));
  attempt_.state = Attempt::Prefilling{
      .commit_by = kStart + absl::Seconds(3), .prefill_end = {}, .decode_end = {}};
  EXPECT_EQ(attempt_.NextTimer(), kStart + absl::Seconds(3));
  attempt_.state = Attempt::Choosing{.ask_at = kStart + absl::Seconds(2)};
  EXPECT_EQ(attempt_.NextTimer(), kStart + absl::Seconds(2));
  attempt_.state = Attempt::Finishing{.exact = true, .finish_by = kStart + absl::Seconds(9)};
  EXPECT_EQ(attempt_.NextTimer(), kStart + absl::Seconds(9)) << "nothing else matters at the end";
}

}  // namespace
}  // namespace baton
