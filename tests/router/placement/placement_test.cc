#include "router/placement/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/router/placement/idle_worker.h"

namespace baton {
namespace {

using Outcome = Placement::Outcome;

const WorkerNeeds kNeeds{.decode = true, .prompt_tokens = 10, .max_total_tokens = 20};

TEST(Placement, PairsTheLeastLoaded) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)},
      d{IdleWorker(3), IdleWorker(4), IdleWorker(5)};
  p[0].own_prompts = 1;
  d[0].own_sequences = 2;
  d[1].reported_sequences = 1;
  const Placement placement = Place(kNeeds, p, d, {}, 0);
  ASSERT_EQ(placement.outcome, Outcome::kPlaced);
  EXPECT_EQ(placement.prefill, 1u);
  EXPECT_EQ(placement.decode, 2u);
}

TEST(Placement, PrefersADecodeWorkerWithRoomForThePrompt) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2), IdleWorker(3)};
  d[0].free_blocks = 0;
  d[1].own_sequences = 5;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
  d[0].free_blocks = 10;
  d[0].tokens_since = 320;  // what was given away since it reported
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
}

TEST(Placement, TakesAWorkerThatBrokeTheRequestOnlyWhereThereIsNoOther) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  p[1].own_prompts = 1;
  d[1].own_sequences = 9;
  WorkerNeeds needs = kNeeds;
  needs.avoid = {1, 3};
  for (const auto policy : kPolicies) {
    const Placement placement = Place(needs, p, d, {.policy = policy}, 0);
    EXPECT_EQ(placement.prefill, 1u);
    EXPECT_EQ(placement.decode, 1u);
  }
  needs.avoid = {1, 2, 3, 4};
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 0u);
}

TEST(Placement, WhoOpensAloneWaitsForWorkersThatNoPromptIsToBeComputedFor) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  p[0].own_prompts = 1;
  d[0].own_arriving = 1;
  p[1].own_sequences = d[1].own_sequences = 9;  // sequences that have their prompts
  WorkerNeeds needs = kNeeds;
  needs.alone = true;
  const Placement placement = Place(needs, p, d, {}, 0);
  EXPECT_EQ(placement.prefill, 1u);
  EXPECT_EQ(placement.decode, 1u);
  d[1].own_arriving = 1;
  EXPECT_EQ(Place(needs, p, d, {}, 0).outcome, Outcome::kWait);
  d[1].own_arriving = 0;
  p[1].own_prompts = 1;
  EXPECT_EQ(Place(needs, p, d, {.disaggregation = Disaggregation::kAlways}, 0).outcome,
            Outcome::kWait);
  needs.decode = false;
  EXPECT_EQ(Place(needs, p, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, AWorkerOnWhichAnAttemptOpensAloneTakesNothingElse) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  p[0].own_alone = d[0].own_alone = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).prefill, 1u);
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
  d[1].own_alone = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
  EXPECT_EQ(Place(kNeeds, {}, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, PrefersTheDecodeWorkerThatHoldsPagesOfTheRequest) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2), IdleWorker(3)};
  d[1].own_sequences = 9;
  WorkerNeeds needs = kNeeds;
  needs.prefer_decode = 3;
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 1u);
  needs.prefer_decode = 77;  // gone
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 0u);
}

TEST(Placement, RoundRobinTakesTheFirstCandidateWhateverItsLoad) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)},
      d{IdleWorker(3), IdleWorker(4), IdleWorker(5)};
  p[0].queued_tokens = 1000;
  d[0].own_sequences = 9;
  const Placement placement = Place(kNeeds, p, d, {.policy = PlacementPolicy::kRoundRobin}, 5);
  EXPECT_EQ(placement.prefill, 0u);
  EXPECT_EQ(placement.decode, 0u);
}

TEST(Placement, NeverPairsWorkersOfDifferentModels) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3)};
  p[0].identity = "other";
  p[1].own_prompts = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).prefill, 1u);
  p.pop_back();
  EXPECT_EQ(Place(kNeeds, p, d, {.disaggregation = Disaggregation::kAlways}, 0).outcome,
            Outcome::kNoneIsReady);
}

TEST(Placement, ContinuesAnAnswerOnlyWithTheModelThatBeganIt) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  p[0].identity = d[0].identity = "other";
  p[1].own_sequences = d[1].own_sequences = 9;
  WorkerNeeds needs = kNeeds;
  needs.model = p[1].identity;
  for (const auto policy : kPolicies) {
    const Placement placement = Place(needs, p, d, {.policy = policy}, 0);
    ASSERT_EQ(placement.outcome, Outcome::kPlaced);
    EXPECT_EQ(placement.prefill, 1u);
    EXPECT_EQ(placement.decode, 1u);
  }
  p.pop_back();
  d.pop_back();
  EXPECT_EQ(Place(needs, p, d, {}, 0).outcome, Outcome::kNoneIsReady);
}

TEST(Placement, WaitsWhileEveryPrefillWorkerHasEnoughPrompts) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  p[0].own_prompts = kMaxQueuedPrompts;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
  WorkerNeeds one_token = kNeeds;
  one_token.decode = false;
  EXPECT_EQ(Place(one_token, p, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, APromptWithoutMemoryElsewhereTakesAPlaceFromThoseOnlyThatWouldWaitForMemoryToo) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  p[0].own_prompts = kMaxQueuedPrompts;
  p[0].own_postponed = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kPlaced);
  d[0].free_blocks = 0;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
  d.push_back(IdleWorker(3));
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
  p[0].own_postponed = 0;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, WaitsForWorkersThatFailedTooOften) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  d[0].takes_requests = false;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
  d[0].takes_requests = true;
  p[0].takes_requests = false;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, DisaggregatesAsTheFlagSays) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  for (const auto mode : {Disaggregation::kAuto, Disaggregation::kAlways}) {
    EXPECT_EQ(Place(kNeeds, p, d, {.disaggregation = mode}, 0).prefill, 0u);
  }
  const Placement never = Place(kNeeds, p, d, {.disaggregation = Disaggregation::kNever}, 0);
  EXPECT_EQ(never.outcome, Outcome::kPlaced);
  EXPECT_FALSE(never.prefill.has_value());
  const Placement local = Place(kNeeds, {}, d, {.disaggregation = Disaggregation::kAuto}, 0);
  EXPECT_EQ(local.outcome, Outcome::kPlaced);
  EXPECT_FALSE(local.prefill.has_value());
  EXPECT_EQ(Place(kNeeds, {}, d, {.disaggregation = Disaggregation::kAlways}, 0).outcome,
            Outcome::kNoneIsReady);
  d[0].own_prompts = kMaxQueuedPrompts;
  EXPECT_EQ(Place(kNeeds, {}, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, OneTokenGoesToAPrefillWorkerAlone) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  WorkerNeeds needs = kNeeds;
  needs.decode = false;
  const Placement placement = Place(needs, p, d, {}, 0);
  EXPECT_EQ(placement.prefill, 0u);
  EXPECT_FALSE(placement.decode.has_value());
  EXPECT_EQ(Place(needs, {}, d, {}, 0).decode, 0u);
}

TEST(Placement, LeavesWorkersOutThatAreTooShort) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2), IdleWorker(3)};
  d[0].max_model_len = 19;
  d[1].own_sequences = 9;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
}

TEST(Placement,
     TheLongerCachedPrefixWinsWhereQueuesAreEqualAndTheShorterQueueWhereItIsMuchShorter) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2), IdleWorker(3)}, d{IdleWorker(4)};
  const WorkerNeeds needs{.prompt_tokens = 90, .max_total_tokens = 95};
  p[1].cached_tokens = 64;
  for (uint32_t queued : {0u, 10000u}) {
    for (WorkerSnapshot& worker : p) worker.queued_tokens = queued;
    for (uint64_t turn = 0; turn < 50; ++turn) {
      EXPECT_EQ(Place(needs, p, d, {}, turn).prefill, 1u);
    }
  }
  p[0].queued_tokens = p[2].queued_tokens = 0;
  p[1].queued_tokens = 63;
  EXPECT_EQ(Place(needs, p, d, {}, 0).prefill, 1u) << "1 token less to compute before the first";
  p[1].queued_tokens = 80;
  EXPECT_NE(Place(needs, p, d, {}, 0).prefill, 1u);
  // Ten times as fast: ten times the queue.
  for (WorkerSnapshot& worker : p) worker.prefill_tokens_per_second = 100;
  p[1].prefill_tokens_per_second = 1000;
  p[1].queued_tokens = 600;
  EXPECT_EQ(Place(needs, p, d, {}, 0).prefill, 1u);
}

TEST(Placement, WhatADecodeWorkerHoldsNeedNotBeSentToIt) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2), IdleWorker(3), IdleWorker(4)};
  for (WorkerSnapshot& worker : d) {
    worker.kv_bytes_per_token = 100000;
    worker.own_sequences = 3;
  }
  d[1].cached_tokens = 9;
  for (uint64_t turn = 0; turn < 20; ++turn) EXPECT_EQ(Place(kNeeds, p, d, {}, turn).decode, 1u);
  d[1].own_sequences = 4;
  EXPECT_NE(Place(kNeeds, p, d, {}, 0).decode, 1u) << "it is the busier one by more than that";
}

TEST(Placement, CountsWhatWasGivenAndWhatEndedSinceTheReport) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  p[0].queued_tokens = 500;
  d[0].reported_sequences = 5;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).prefill, 1u);
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
  p[1].prompt_tokens_since = 600;
  d[1].sequences_since = 6;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).prefill, 0u);
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 0u);
  p[1].prompt_tokens_since = 0;
  p[0].prompt_tokens_since = -500;
  d[0].sequences_since = -5;
  d[1].sequences_since = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 0u);
}

TEST(Placement, LeastLoadedDoesNotLookAtPrefixes) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(4)};
  p[1].cached_tokens = 8;
  p[1].own_prompts = 1;
  const PlacementOptions options{.policy = PlacementPolicy::kLeastLoaded};
  for (uint64_t turn = 0; turn < 20; ++turn) {
    EXPECT_EQ(Place(kNeeds, p, d, options, turn).prefill, 0u);
  }
}

TEST(Placement, EqualsGetEqualSharesOverTheTurns) {
  std::vector<WorkerSnapshot> p, d;
  for (uint64_t id = 1; id <= 5; ++id) p.push_back(IdleWorker(id));
  for (uint64_t id = 11; id <= 17; ++id) d.push_back(IdleWorker(id));
  std::map<size_t, int> prefill, decode;
  constexpr int kTurns = 7000;
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    const Placement placement = Place(kNeeds, p, d, {}, turn);
    ++prefill[*placement.prefill];
    ++decode[*placement.decode];
  }
  for (const auto& [index, count] : prefill) EXPECT_NEAR(count, kTurns / 5.0, kTurns / 50.0);
  for (const auto& [index, count] : decode) EXPECT_NEAR(count, kTurns / 7.0, kTurns / 70.0);
}

// A worker that has joined: the others have long queues of running sequences.
TEST(Placement, AnEmptyWorkerIsFilledByAndBy) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2), IdleWorker(3), IdleWorker(4)};
  for (WorkerSnapshot& worker : d) worker.total_blocks = worker.free_blocks = 1000;
  d[0].own_sequences = d[1].own_sequences = 30;
  int given = 0;
  // None of what is given arrives meanwhile.
  for (uint64_t turn = 0; turn < 30; ++turn) {
    const size_t chosen = *Place(kNeeds, p, d, {}, turn).decode;
    ++d[chosen].own_sequences;
    ++d[chosen].own_arriving;
    given += chosen == 2 ? 1 : 0;
  }
  EXPECT_GE(given, 5);
  EXPECT_LE(given, 20);
}

TEST(Placement, APairWhoseHandOffsFailIsAvoided) {
  std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3), IdleWorker(4)};
  d[1].own_sequences = 9;
  const auto from_one_to_three = [](uint64_t prefill, uint64_t decode) {
    return LinkEstimate{.bad = prefill == 1 && decode == 3};
  };
  for (const auto mode : {Disaggregation::kAuto, Disaggregation::kAlways}) {
    for (uint64_t turn = 0; turn < 20; ++turn) {
      const Placement placement =
          Place(kNeeds, p, d, {.disaggregation = mode}, turn, from_one_to_three);
      EXPECT_EQ(placement.prefill, 1u);
      EXPECT_EQ(placement.decode, 0u);
    }
  }
  // A decode worker that none can reach: another. No pair at all: locally, or whatever the link.
  const auto to_three = [](uint64_t, uint64_t decode) { return LinkEstimate{.bad = decode == 3}; };
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0, to_three).decode, 1u);
  const auto all = [](uint64_t, uint64_t) { return LinkEstimate{.bad = true}; };
  const Placement local = Place(kNeeds, p, d, {}, 0, all);
  EXPECT_EQ(local.outcome, Outcome::kPlaced);
  EXPECT_FALSE(local.prefill.has_value());
  const PlacementOptions always{.disaggregation = Disaggregation::kAlways};
  EXPECT_TRUE(Place(kNeeds, p, d, always, 0, all).prefill.has_value());
}

TEST(Placement, AfterSeveralBrokenHandOffsThePromptIsPrefilledWhereItIsDecoded) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  WorkerNeeds needs = kNeeds;
  needs.failed_hand_offs = 3;
  EXPECT_FALSE(Place(needs, p, d, {}, 0).prefill.has_value());
  EXPECT_TRUE(
      Place(needs, p, d, {.disaggregation = Disaggregation::kAlways}, 0).prefill.has_value());
}

TEST(Placement, ShortPromptsArePrefilledLocallyWhereTheFlagSaysHowShort) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  const PlacementOptions options{.disaggregation = Disaggregation::kByLength,
                                 .local_below_tokens = 40};
  WorkerNeeds needs{.prompt_tokens = 40, .max_total_tokens = 50};
  EXPECT_TRUE(Place(needs, p, d, options, 0).prefill.has_value());
  d[0].cached_tokens = 32;
  EXPECT_FALSE(Place(needs, p, d, options, 0).prefill.has_value()) << "8 are to be computed";
  d[0].cached_tokens = 0;
  needs.prompt_tokens = 39;
  EXPECT_FALSE(Place(needs, p, d, options, 0).prefill.has_value());
  EXPECT_FALSE(
      Place({.prompt_tokens = 90, .max_total_tokens = 91}, {}, d, options, 0).prefill.has_value());
}

TEST(Placement, AutoPrefillsLocallyWhereThatIsFasterForAll) {
  std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(2)};
  const WorkerNeeds needs{.prompt_tokens = 90, .max_total_tokens = 95};
  const auto link = [](uint64_t, uint64_t) {
    return LinkEstimate{.bytes_per_second = 1e9, .exposed = absl::Milliseconds(5)};
  };
  const auto is_local = [&] { return !Place(needs, p, d, {}, 0, link).prefill.has_value(); };
  EXPECT_FALSE(is_local()) << "nothing is known";
  p[0].prefill_tokens_per_second = 1000;
  EXPECT_FALSE(is_local()) << "90 ms on either side, in the way of others on one of them";
  p[0].queued_tokens = 500;
  EXPECT_TRUE(is_local()) << "half a second of queue";
  d[0].reported_sequences = 20;
  EXPECT_FALSE(is_local()) << "twenty would stand still for 90 ms";
  p[0].queued_tokens = 0;
  d[0].reported_sequences = 0;
  d[0].cached_tokens = 88;
  EXPECT_TRUE(is_local()) << "next to nothing is to be computed there";
  d[0].cached_tokens = 0;
  p[0].prefill_tokens_per_second = d[0].prefill_tokens_per_second = 40000;
  EXPECT_TRUE(is_local()) << "2 ms of prefill, 5 ms of transfer";
  d[0].own_prompts = kMaxQueuedPrompts;
  EXPECT_FALSE(is_local());
}

TEST(Placement, ALinkThatTheRequestHasSpentIsLeftForAnotherPairOrALocalPrefill) {
  const std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3)};
  WorkerNeeds needs = kNeeds;
  needs.spent_links = {{.prefill = 1, .decode = 3}};
  const auto to_three = [](uint64_t prefill, uint64_t decode) {
    return LinkEstimate{.spent = prefill == 1 && decode == 3};
  };
  for (const auto policy : kPolicies) {
    for (const auto mode : {Disaggregation::kAuto, Disaggregation::kAlways}) {
      const PlacementOptions options{.policy = policy, .disaggregation = mode};
      EXPECT_EQ(Place(needs, p, d, options, 0, to_three).prefill, 1u);
    }
    std::vector<WorkerSnapshot> one{IdleWorker(1)}, busy{IdleWorker(3)};
    const PlacementOptions options{.policy = policy};
    const Placement local = Place(needs, one, d, options, 0, to_three);
    EXPECT_EQ(local.decode, 0u);
    EXPECT_FALSE(local.prefill.has_value());
    busy[0].own_prompts = kMaxQueuedPrompts;
    EXPECT_EQ(Place(needs, one, busy, options, 0, to_three).outcome, Outcome::kWait)
        << "it waits for the decode worker rather than try the link again";
  }
}

TEST(Placement, ASpentLinkIsTheLastResortOnceItHasRested) {
  const std::vector<WorkerSnapshot> p{IdleWorker(1)}, d{IdleWorker(3)};
  const PlacementOptions always{.disaggregation = Disaggregation::kAlways};
  WorkerNeeds needs = kNeeds;
  needs.spent_links = {{.prefill = 1, .decode = 3}};
  const auto rests = [](uint64_t, uint64_t) { return LinkEstimate{.spent = true, .rests = true}; };
  EXPECT_EQ(Place(needs, p, d, always, 0, rests).outcome, Outcome::kNoneIsReady)
      << "others go on meanwhile";
  const auto rested = [](uint64_t, uint64_t) { return LinkEstimate{.spent = true}; };
  EXPECT_EQ(Place(needs, p, d, always, 0, rested).outcome, Outcome::kPlaced);
  const std::vector<WorkerSnapshot> busy_p{IdleWorker(1), [] {
                                             WorkerSnapshot busy = IdleWorker(2);
                                             busy.own_prompts = kMaxQueuedPrompts;
                                             return busy;
                                           }()};
  const auto first_rested = [](uint64_t prefill, uint64_t) {
    return LinkEstimate{.spent = prefill == 1};
  };
  EXPECT_EQ(Place(needs, busy_p, d, always, 0, first_rested).outcome, Outcome::kWait)
      << "another pair is possible";
}

TEST(Placement, APairBetweenWhichNoPushGetsThroughIsNeverTaken) {
  const std::vector<WorkerSnapshot> p{IdleWorker(1), IdleWorker(2)}, d{IdleWorker(3)};
  const auto from_one = [](uint64_t prefill, uint64_t) {
    return LinkEstimate{.impossible = prefill == 1};
  };
  const auto none = [](uint64_t, uint64_t) { return LinkEstimate{.impossible = true}; };
  const PlacementOptions always{.disaggregation = Disaggregation::kAlways};
  EXPECT_EQ(Place(kNeeds, p, d, always, 0, from_one).prefill, 1u);
  EXPECT_EQ(Place(kNeeds, p, d, always, 0, none).outcome, Outcome::kNoneIsReady);
  const Placement local = Place(kNeeds, p, d, {}, 0, none);
  EXPECT_EQ(local.decode, 0u);
  EXPECT_FALSE(local.prefill.has_value());
}

}  // namespace
}  // namespace baton
