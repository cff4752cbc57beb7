#include "client/plan/fleet_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/plan/planned_network.h"

namespace baton {
namespace {

using testing::ElementsAre;

TEST(KvTally, WeighsWhatIsHeldByTheTime) {
  KvTally kv(100);
  kv.Holds(50, 0);
  kv.Holds(80, 10);
  kv.Holds(0, 15);
  kv.Holds(0, 20);
  EXPECT_DOUBLE_EQ(kv.mean_used(20), (50 * 10 + 80 * 5) / (100.0 * 20));
  EXPECT_DOUBLE_EQ(kv.most_used(), 0.8);
}

TEST(RoleTally, IsTheMeanOfTheWorkersAndTheMostOfAny) {
  KvTally kv(100);
  kv.Holds(50, 0);
  kv.Holds(50, 1000);
  RoleTally role(1000);
  role.Add({.busy_ns = 900, .link_busy_ns = 100, .steps = 10, .rows = 40, .preemptions = 1}, kv);
  role.Add({.busy_ns = 100, .link_busy_ns = 0, .steps = 10, .rows = 20, .preemptions = 2}, kv);
  const RoleUse use = role.Use();
  EXPECT_EQ(use.workers, 2);
  EXPECT_DOUBLE_EQ(use.busy, 0.5);
  EXPECT_DOUBLE_EQ(use.most_busy, 0.9);
  EXPECT_DOUBLE_EQ(use.link_busy, 0.05);
  EXPECT_DOUBLE_EQ(use.rows_per_step, 3);
  EXPECT_DOUBLE_EQ(use.kv_used, 0.5);
  EXPECT_EQ(use.preemptions, 3u);
}

TEST(FleetTally, MakesTimesOfMoments) {
  const LoadObjective objective = {{.name = "e2e", .time = LimitedTime::kE2e, .most_ns = 500}};
  FleetTally tally(objective);
  tally.Waits(2, 100);
  tally.Waits(0, 200);
  tally.Token(-1);
  tally.Token(30);
  tally.Completed({.at = 100, .placed = 110, .begun = 120, .computed = 300, .first = 320}, 7,
                  {{.at_ns = 320, .tokens = 1}, {.at_ns = 350, .tokens = 1}});
  EXPECT_EQ(tally.bad(), 0u);
  tally.Refused(1100);
  EXPECT_EQ(tally.bad(), 1u);
  const PlanResult result = tally.Take(100);
  EXPECT_THAT(result.ttft_ns, ElementsAre(220));
  EXPECT_THAT(result.queue_ns, ElementsAre(10));
  EXPECT_THAT(result.prefill_ns, ElementsAre(190));
  EXPECT_THAT(result.exposed_ns, ElementsAre(20));
  EXPECT_THAT(result.tpot_ns, ElementsAre(30));
  EXPECT_THAT(result.e2e_ns, ElementsAre(250));
  EXPECT_EQ(result.itl.count(), 1u);
  EXPECT_EQ(result.span_ns, 1000);
  EXPECT_DOUBLE_EQ(result.mean_waiting, 0.2);
  EXPECT_EQ(result.most_waiting, 2u);
  EXPECT_EQ(result.good, 1u);
}

TEST(PlannedNetwork, CarriesOneHandOffBehindTheOther) {
  PlannedNetwork network(3, 1e9, 10);  // a byte a nanosecond
  EXPECT_EQ(network.Send(0, 2, 1000, 50, 500), 1050);
  EXPECT_EQ(network.Send(1, 2, 100, 60, 70), 1150) << "the receiver is busy until then";
  EXPECT_EQ(network.Send(0, 1, 100, 60, 3000), 3010) << "the last layer goes when it is computed";
  EXPECT_EQ(network.busy_ns(0), 1100);
  EXPECT_EQ(network.busy_ns(1), 200);
  EXPECT_EQ(network.busy_ns(2), 1100);
}

}  // namespace
}  // namespace baton
