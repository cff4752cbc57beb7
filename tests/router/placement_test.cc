#include "router/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace baton {
namespace {

using Outcome = Placement::Outcome;

WorkerSnapshot Worker(uint64_t id) {
  return {.id = id,
          .identity = "m",
          .max_model_len = 100,
          .block_size = 32,
          .free_blocks = 10,
          .queued_tokens = 0,
          .reported_sequences = 0,
          .own_sequences = 0,
          .own_prompts = 0};
}

const WorkerNeeds kNeeds{.decode = true, .prompt_tokens = 10, .max_total_tokens = 20};

TEST(Placement, PairsTheLeastLoaded) {
  std::vector<WorkerSnapshot> p{Worker(1), Worker(2)}, d{Worker(3), Worker(4), Worker(5)};
  p[0].own_prompts = 1;
  d[0].own_sequences = 2;
  d[1].reported_sequences = 1;
  const Placement placement = Place(kNeeds, p, d, {}, 0);
  ASSERT_EQ(placement.outcome, Outcome::kPlaced);
  EXPECT_EQ(placement.prefill, 1u);
  EXPECT_EQ(placement.decode, 2u);
}

TEST(Placement, PrefersADecodeWorkerWithRoomForThePrompt) {
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2), Worker(3)};
  d[0].free_blocks = 0;
  d[1].own_sequences = 5;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
}

TEST(Placement, TakesAWorkerThatBrokeTheRequestOnlyWhereThereIsNoOther) {
  std::vector<WorkerSnapshot> p{Worker(1), Worker(2)}, d{Worker(3), Worker(4)};
  p[1].own_prompts = 1;
  d[1].own_sequences = 9;
  WorkerNeeds needs = kNeeds;
  needs.avoid = {1, 3};
  for (const auto policy : {PlacementPolicy::kLeastLoaded, PlacementPolicy::kRoundRobin}) {
    const Placement placement = Place(needs, p, d, {.policy = policy}, 0);
    EXPECT_EQ(placement.prefill, 1u);
    EXPECT_EQ(placement.decode, 1u);
  }
  needs.avoid = {1, 2, 3, 4};
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 0u);
}

TEST(Placement, PrefersTheDecodeWorkerThatHoldsPagesOfTheRequest) {
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2), Worker(3)};
  d[1].own_sequences = 9;
  WorkerNeeds needs = kNeeds;
  needs.prefer_decode = 3;
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 1u);
  needs.prefer_decode = 77;  // gone
  EXPECT_EQ(Place(needs, p, d, {}, 0).decode, 0u);
}

TEST(Placement, RoundRobinTakesTurns) {
  std::vector<WorkerSnapshot> p{Worker(1), Worker(2)}, d{Worker(3), Worker(4), Worker(5)};
  d[1].own_sequences = 9;
  for (uint64_t turn = 0; turn < 12; ++turn) {
    const Placement placement = Place(kNeeds, p, d, {.policy = PlacementPolicy::kRoundRobin}, turn);
    EXPECT_EQ(placement.prefill, turn % 2);
    EXPECT_EQ(placement.decode, turn % 3);
  }
}

TEST(Placement, NeverPairsWorkersOfDifferentModels) {
  std::vector<WorkerSnapshot> p{Worker(1), Worker(2)}, d{Worker(3)};
  p[0].identity = "other";
  p[1].own_prompts = 1;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).prefill, 1u);
  p.pop_back();
  EXPECT_EQ(Place(kNeeds, p, d, {.disaggregation = Disaggregation::kAlways}, 0).outcome,
            Outcome::kNoneIsReady);
}

TEST(Placement, WaitsWhileEveryPrefillWorkerHasEnoughPrompts) {
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2)};
  p[0].own_prompts = kMaxQueuedPrompts;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).outcome, Outcome::kWait);
  WorkerNeeds one_token = kNeeds;
  one_token.decode = false;
  EXPECT_EQ(Place(one_token, p, d, {}, 0).outcome, Outcome::kWait);
}

TEST(Placement, DisaggregatesAsTheFlagSays) {
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2)};
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
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2)};
  WorkerNeeds needs = kNeeds;
  needs.decode = false;
  const Placement placement = Place(needs, p, d, {}, 0);
  EXPECT_EQ(placement.prefill, 0u);
  EXPECT_FALSE(placement.decode.has_value());
  EXPECT_EQ(Place(needs, {}, d, {}, 0).decode, 0u);
}

TEST(Placement, LeavesWorkersOutThatAreTooShort) {
  std::vector<WorkerSnapshot> p{Worker(1)}, d{Worker(2), Worker(3)};
  d[0].max_model_len = 19;
  d[1].own_sequences = 9;
  EXPECT_EQ(Place(kNeeds, p, d, {}, 0).decode, 1u);
}

}  // namespace
}  // namespace baton
