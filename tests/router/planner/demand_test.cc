#include "router/planner/demand.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Demand, CountsARequestOnceHoweverManyAttemptsItTakes) {
  Demand demand;
  Demand::Place place = demand.Arrived(100);
  EXPECT_EQ(demand.counts().requests, 1u);
  EXPECT_EQ(demand.counts().prompt_tokens, 100u);
  EXPECT_EQ(demand.counts().waiting_tokens, 100u);
  demand.GotWorkers(place, 60);
  demand.GotWorkers(place, 140);
  EXPECT_EQ(demand.counts().waiting_tokens, 0u);
  EXPECT_EQ(demand.counts().placed_tokens, 100u);
  EXPECT_EQ(demand.counts().uncached_tokens, 60u);
  demand.Ended(place, 40, false);
  EXPECT_EQ(demand.counts().ended, 1u);
  EXPECT_EQ(demand.counts().output_tokens, 40u);
  EXPECT_EQ(demand.counts().gave_up, 0u);
}

TEST(Demand, ARequestThatNeverHadWorkersHasNoAnswerToBeCounted) {
  Demand demand;
  Demand::Place leaves = demand.Arrived(70), gives_up = demand.Arrived(100);
  const Demand::Place waits = demand.Arrived(30);
  demand.Ended(leaves, 0, false);
  EXPECT_EQ(demand.counts().gave_up, 0u) << "its client went away";
  demand.Ended(gives_up, 0, true);
  EXPECT_EQ(demand.counts().waiting_tokens, 30u);
  EXPECT_EQ(demand.counts().gave_up, 1u);
  EXPECT_EQ(demand.counts().ended, 0u);
  EXPECT_TRUE(waits.waits);
}

}  // namespace
}  // namespace baton
