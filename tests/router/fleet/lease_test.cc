#include "router/fleet/lease.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "router/calls/thread_loop.h"
#include "tests/router/fleet/ready_worker.h"

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_DECODE;
using internal::v1::WORKER_ROLE_PREFILL;

class LeaseTest : public testing::Test {
 protected:
  Lease LeaseOfBoth() {
    return Lease(fleet_, {.prefill = prefill_.id(),
                          .decode = decode_.id(),
                          .prompt_tokens = 100,
                          .computed_tokens = 60});
  }
  static void ExpectNothingIsCounted(const WorkerSnapshot& seen) {
    EXPECT_EQ(seen.own_sequences, 0u);
    EXPECT_EQ(seen.own_arriving, 0u);
    EXPECT_EQ(seen.own_prompts, 0u);
    EXPECT_EQ(seen.own_postponed, 0u);
    EXPECT_EQ(seen.own_prompt_tokens, 0u);
    EXPECT_EQ(seen.own_alone, 0u);
    EXPECT_EQ(seen.sequences_since, 0);
    EXPECT_EQ(seen.prompt_tokens_since, 0);
  }

  ThreadLoop loop_;
  Fleet fleet_{loop_};
  ReadyWorker prefill_{loop_, fleet_, WORKER_ROLE_PREFILL};
  ReadyWorker decode_{loop_, fleet_, WORKER_ROLE_DECODE};
};

TEST_F(LeaseTest, CountsThePromptWhereItIsComputedAndASequenceOnBothWorkers) {
  const Lease lease = LeaseOfBoth();
  EXPECT_EQ(prefill_.seen().own_sequences, 1u);
  EXPECT_EQ(prefill_.seen().own_prompts, 1u);
  EXPECT_EQ(prefill_.seen().own_prompt_tokens, 60u);
  EXPECT_EQ(prefill_.seen().own_arriving, 0u);
  EXPECT_EQ(decode_.seen().own_sequences, 1u);
  EXPECT_EQ(decode_.seen().own_prompts, 0u);
  EXPECT_EQ(decode_.seen().own_arriving, 1u);
  EXPECT_EQ(decode_.seen().tokens_since, 100u);
}

TEST_F(LeaseTest, GivesAllOfItBackWhenItEnds) {
  { const Lease lease = LeaseOfBoth(); }
  ExpectNothingIsCounted(prefill_.seen());
  ExpectNothingIsCounted(decode_.seen());
}

TEST_F(LeaseTest, OfAnAttemptThatOpensAloneHoldsBothWorkersUntilThePromptIsComputed) {
  Lease lease(fleet_, {.prefill = prefill_.id(), .decode = decode_.id(), .alone = true});
  EXPECT_FALSE(Takes(prefill_.seen()));
  EXPECT_FALSE(Takes(decode_.seen()));
  EXPECT_TRUE(lease.PromptComputed());
  EXPECT_TRUE(Takes(prefill_.seen()));
  EXPECT_TRUE(Takes(decode_.seen()));
  EXPECT_FALSE(lease.PromptComputed());
  EXPECT_EQ(prefill_.seen().own_alone, 0u);
}

TEST_F(LeaseTest, ThatWasMovedFromGivesNothingBack) {
  std::optional<Lease> from(LeaseOfBoth());
  const Lease lease = *std::move(from);
  from.reset();
  EXPECT_EQ(prefill_.seen().own_prompts, 1u);
  EXPECT_EQ(decode_.seen().own_sequences, 1u);
}

TEST_F(LeaseTest, GivesThePromptsPlaceBackOnceWhenThePromptIsComputed) {
  const Lease other = LeaseOfBoth();
  Lease lease = LeaseOfBoth();
  EXPECT_FALSE(HasRoomForPrompt(prefill_.seen()));
  EXPECT_TRUE(lease.PromptComputed());
  EXPECT_FALSE(lease.PromptComputed());
  EXPECT_EQ(prefill_.seen().own_prompts, 1u);
  EXPECT_EQ(prefill_.seen().own_sequences, 2u);
  EXPECT_EQ(decode_.seen().own_arriving, 1u);
  EXPECT_TRUE(HasRoomForPrompt(prefill_.seen()));
}

TEST_F(LeaseTest, APostponedPromptHoldsNoPlaceUntilItComes) {
  const Lease other = LeaseOfBoth();
  Lease lease = LeaseOfBoth();
  lease.PromptPostponed();
  lease.PromptPostponed();
  EXPECT_EQ(prefill_.seen().own_postponed, 1u);
  EXPECT_TRUE(HasRoomForPrompt(prefill_.seen()));
  lease.PromptComes();
  EXPECT_EQ(prefill_.seen().own_postponed, 0u);
  EXPECT_FALSE(HasRoomForPrompt(prefill_.seen()));
}

TEST_F(LeaseTest, APostponedPromptIsGivenBackWithItsLease) {
  {
    Lease lease = LeaseOfBoth();
    lease.PromptPostponed();
  }
  ExpectNothingIsCounted(prefill_.seen());
}

TEST_F(LeaseTest, ThePrefillWorkerIsBusyWhileAPromptHasAPlaceThere) {
  const auto is_busy = [&] {
    const absl::Time later = fleet_.Now() + absl::Hours(1);
    const BusyTime& time = prefill_.worker().prompt_time;
    return time.Total(later + absl::Seconds(1)) == time.Total(later) + absl::Seconds(1);
  };
  EXPECT_FALSE(is_busy());
  std::optional<Lease> lease(LeaseOfBoth());
  EXPECT_TRUE(is_busy());
  lease->PromptPostponed();
  EXPECT_FALSE(is_busy());
  lease->PromptComes();
  EXPECT_TRUE(is_busy());
  lease->PromptComputed();
  EXPECT_FALSE(is_busy());
  lease.emplace(LeaseOfBoth());
  EXPECT_TRUE(is_busy());
  prefill_.ComeAgain();
  EXPECT_FALSE(is_busy()) << "what it was given is lost";
}

TEST_F(LeaseTest, WithoutAPrefillWorkerThePromptCountsOnTheDecodeWorker) {
  Lease lease(fleet_, {.decode = decode_.id(), .prompt_tokens = 100, .computed_tokens = 100});
  EXPECT_EQ(decode_.seen().own_prompts, 1u);
  EXPECT_EQ(decode_.seen().own_arriving, 0u);
  lease.PromptPostponed();  // there is no prefill worker whose place it could leave
  EXPECT_EQ(decode_.seen().own_postponed, 0u);
  EXPECT_TRUE(lease.PromptComputed());
  EXPECT_EQ(decode_.seen().own_prompts, 0u);
  EXPECT_EQ(decode_.seen().own_sequences, 1u);
}

TEST_F(LeaseTest, TakesNothingFromAWorkerThatCameAgainUnderAnotherId) {
  std::optional<Lease> lease(LeaseOfBoth());
  decode_.ComeAgain();
  const Lease next(fleet_, {.decode = decode_.id(), .prompt_tokens = 10, .computed_tokens = 10});
  lease.reset();
  EXPECT_EQ(decode_.seen().own_sequences, 1u);
  EXPECT_EQ(decode_.seen().own_prompts, 1u);
  ExpectNothingIsCounted(prefill_.seen());
}

TEST_F(LeaseTest, AWorkerThatCameAgainIsFreeOfTheAttemptThatOpenedAloneThere) {
  const Lease::Terms alone{.prefill = prefill_.id(), .decode = decode_.id(), .alone = true};
  std::optional<Lease> lease(std::in_place, fleet_, alone);
  decode_.ComeAgain();
  EXPECT_TRUE(Takes(decode_.seen()));
  EXPECT_FALSE(Takes(prefill_.seen()));
  lease.reset();
  EXPECT_TRUE(Takes(decode_.seen()));
  EXPECT_TRUE(Takes(prefill_.seen()));
}

TEST_F(LeaseTest, KnowsWhatTheBreakerOfEachWorkerSaid) {
  const Lease first = LeaseOfBoth();
  decode_.worker().breaker.Failed(first.begun(decode_.id()), fleet_.Now());
  const Lease second = LeaseOfBoth();
  EXPECT_EQ(first.begun(prefill_.id()), second.begun(prefill_.id()));
  EXPECT_NE(first.begun(decode_.id()), second.begun(decode_.id()));
}

}  // namespace
}  // namespace baton
