#include "client/plan/planned_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/client/plan/planned_things.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Gt;
using testing::Lt;

double Mean(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

PlanResult Replayed(const FleetOptions& fleet, const PlannedLoad& load,
                    const StepCosts& costs = RoundCosts()) {
  return PlannedFleet(fleet, costs, costs, load).Run();
}

PlannedLoad PoissonLoad(double rate, int input, int output, int seconds) {
  auto load = MakePlannedLoad({.rate = rate, .input_tokens = input, .output_tokens = output},
                              {.seed = 3}, absl::Seconds(seconds));
  EXPECT_TRUE(load.ok()) << load.status();
  return *std::move(load);
}

// Conversations: each request begins with the first of `shared` pages and one of its group.
PlannedLoad SharedLoad(int requests, int64_t every_ns) {
  std::vector<PlannedRequest> made;
  for (int i = 0; i < requests; ++i) {
    std::vector<uint64_t> pages;
    for (uint64_t page = 0; page < 4; ++page) pages.push_back(100 + page);
    for (uint64_t page = 0; page < 8; ++page) {
      pages.push_back(1000 * (1 + static_cast<uint64_t>(i % 7)) + page);
    }
    made.push_back({.at_ns = i * every_ns,
                    .input_tokens = 200 + i % 300,
                    .output_tokens = 1 + i % 40,
                    .pages = std::move(pages)});
  }
  return LoadOf(std::move(made));
}

TEST(PlannedFleet, OfOneRequestTakesTheSumOfItsParts) {
  const PlanResult result = Replayed(
      RoundFleet(1, 1), LoadOf({{.at_ns = 5 * kMs, .input_tokens = 700, .output_tokens = 3}}));
  // 1 ms before it asks; chunks of 512 and 188 rows; the last layer of the second chunk, a tenth of
  // its 188 KB, goes over a network of 1 GB/s; then two decode steps.
  constexpr int64_t kExposed = 18'800;
  constexpr int64_t kTtft = kMs + 51'200'000 + 18'800'000 + kExposed;
  EXPECT_THAT(result.queue_ns, ElementsAre(kMs));
  EXPECT_THAT(result.prefill_ns, ElementsAre(70 * kMs));
  EXPECT_THAT(result.exposed_ns, ElementsAre(kExposed));
  EXPECT_THAT(result.ttft_ns, ElementsAre(kTtft));
  EXPECT_THAT(result.e2e_ns, ElementsAre(kTtft + 2 * 3 * kMs));
  EXPECT_THAT(result.tpot_ns, ElementsAre(3 * kMs));
  EXPECT_EQ(result.itl.count(), 2u);
  EXPECT_EQ(result.itl.most_ns(), 3 * kMs);
  EXPECT_EQ(result.sent_bytes, 700'000u);
  EXPECT_EQ(result.span_ns, kTtft + 6 * kMs);
}

TEST(PlannedFleet, OverASlowNetworkTakesTheTimeOfItsBytes) {
  FleetOptions fleet = RoundFleet(1, 1);
  fleet.link_bytes_per_s = 1e6;
  const PlanResult result =
      Replayed(fleet, LoadOf({{.at_ns = 0, .input_tokens = 700, .output_tokens = 1}}));
  // The first layer can go after a tenth of the first step.
  EXPECT_THAT(result.ttft_ns, ElementsAre(kMs + 5'120'000 + 700 * kMs));
}

TEST(PlannedFleet, OfOnePrefillWorkerWaitsAsMD1Does) {
  constexpr double kService = 51.2, kBusy = 0.7;  // ms
  const PlannedLoad load = PoissonLoad(kBusy / kService * 1e3, 512, 1, 3000);
  ASSERT_GT(load.requests.size(), 40'000u);
  FleetOptions fleet = RoundFleet(1, 1);
  fleet.request_overhead_ns = 0;
  const PlanResult result = Replayed(fleet, load);
  ASSERT_EQ(result.completed, load.requests.size());
  // Pollaczek and Khinchine: the mean wait is busy * service / (2 (1 - busy)).
  const double wait = Mean(result.ttft_ns) / 1e6 - kService - 0.0512;
  EXPECT_NEAR(wait, kBusy * kService / (2 * (1 - kBusy)), 0.05 * 59.7);
  EXPECT_NEAR(result.prefill.busy, kBusy, 0.02);
}

TEST(PlannedFleet, DecodesABatchAtItsPrice) {
  // They come nearly at once and then decode together: 13 ms a step.
  std::vector<PlannedRequest> requests(11, {.at_ns = 0, .input_tokens = 32, .output_tokens = 101});
  const PlanResult result = Replayed(RoundFleet(11, 1), LoadOf(requests));
  EXPECT_EQ(result.completed, 11u);
  EXPECT_NEAR(result.itl.PercentileNs(50), 13e6, 13e6 / 200);
  EXPECT_GT(result.decode.rows_per_step, 10.5);
}

TEST(PlannedFleet, EndsEveryRequestOnceAndGivesEveryTokenBack) {
  const PlannedLoad load = SharedLoad(2000, 4 * kMs);
  uint64_t tokens = 0;
  for (const PlannedRequest& request : load.requests) {
    tokens += static_cast<uint64_t>(request.output_tokens);
  }
  FleetOptions fleet = RoundFleet(3, 2);
  // Some five sequences have room: most wait for memory, and some are preempted.
  fleet.decode_kv_tokens = fleet.prefill_kv_tokens = 2400;
  for (const Disaggregation mode :
       {Disaggregation::kAlways, Disaggregation::kAuto, Disaggregation::kByLength}) {
    fleet.placement.disaggregation = mode;
    fleet.placement.local_below_tokens = 150;
    const PlanResult result = Replayed(fleet, load);
    EXPECT_EQ(result.offered, 2000u);
    EXPECT_EQ(result.completed, 2000u);
    EXPECT_EQ(result.refused, 0u);
    EXPECT_EQ(result.tokens, tokens);
    EXPECT_EQ(result.itl.count(), tokens - 2000);
    EXPECT_THAT(result.exposed_ns, Each(Ge(0)));
    EXPECT_GT(result.cached_tokens, 0u);
    EXPECT_THAT(result.decode.most_kv_used, AllOf(Gt(0.5), testing::Le(1.0)));
    EXPECT_LT(result.decode.kv_used, 1.0);
  }
}

TEST(PlannedFleet, RefusesWhatFitsNoWorkerAndWhatWaitsTooLong) {
  std::vector<PlannedRequest> requests(40, {.at_ns = 0, .input_tokens = 512, .output_tokens = 2});
  requests[7].input_tokens = 5000;
  FleetOptions fleet = RoundFleet(1, 1);
  fleet.decode_kv_tokens = 4096;
  fleet.max_queue_ns = 1000 * kMs;
  const PlanResult result = Replayed(fleet, LoadOf(requests));
  EXPECT_EQ(result.completed + result.refused, 40u);
  // Two are placed at once and then one for each that is computed, until a second has passed.
  EXPECT_EQ(result.completed, 2u + 19u);
  EXPECT_THAT(result.queue_ns, Each(testing::Le(1000 * kMs)));
  EXPECT_EQ(result.most_waiting, 40u - 2u);
}

TEST(PlannedFleet, IsTheSameEachTime) {
  const PlannedLoad load = SharedLoad(1000, 6 * kMs);
  FleetOptions fleet = RoundFleet(3, 3);
  fleet.placement.disaggregation = Disaggregation::kAuto;
  const PlanResult first = Replayed(fleet, load), second = Replayed(fleet, load);
  EXPECT_EQ(first.ttft_ns, second.ttft_ns);
  EXPECT_EQ(first.e2e_ns, second.e2e_ns);
  EXPECT_EQ(first.sent_bytes, second.sent_bytes);
  EXPECT_EQ(first.events, second.events);
}

TEST(PlannedFleet, IsNotWorseWithMoreWorkers) {
  const PlannedLoad load = PoissonLoad(36, 512, 20, 120);
  double ttft = 1e18, gap = 1e18;
  for (const int workers : {2, 3, 4, 6, 9}) {
    const PlanResult more = Replayed(RoundFleet(workers, 2), load);
    EXPECT_LE(Mean(more.ttft_ns), 1.02 * ttft) << workers << " prefill workers";
    ttft = Mean(more.ttft_ns);
    const PlanResult wider = Replayed(RoundFleet(4, workers), load);
    EXPECT_LE(wider.itl.mean_ns(), 1.02 * gap) << workers << " decode workers";
    gap = wider.itl.mean_ns();
  }
  EXPECT_LT(ttft, 60.0 * kMs);
  EXPECT_LT(gap, 4.0 * kMs);
}

TEST(PlannedFleet, PrefillsOnTheDecodeWorkerWhatTheRouterPutsThere) {
  FleetOptions fleet = RoundFleet(1, 1);
  fleet.placement.disaggregation = Disaggregation::kByLength;
  fleet.placement.local_below_tokens = 200;
  const PlanResult result =
      Replayed(fleet, LoadOf({{.at_ns = 0, .input_tokens = 100, .output_tokens = 2},
                              {.at_ns = 500 * kMs, .input_tokens = 300, .output_tokens = 2}}));
  EXPECT_EQ(result.local_prefills, 1u);
  EXPECT_EQ(result.sent_bytes, 300'000u);
  EXPECT_THAT(result.ttft_ns, ElementsAre(11 * kMs, AllOf(Gt(31 * kMs), Lt(32 * kMs))));
}

TEST(PlannedFleet, ComputesAndSendsOnlyWhatTheWorkersDoNotHold) {
  std::vector<uint64_t> pages;
  for (uint64_t page = 1; page <= 30; ++page) pages.push_back(page);
  const PlannedRequest request{.at_ns = 0, .input_tokens = 512, .output_tokens = 2, .pages = pages};
  PlannedRequest again = request;
  again.at_ns = 1000 * kMs;
  const PlanResult result = Replayed(RoundFleet(1, 1), LoadOf({request, again}));
  EXPECT_EQ(result.cached_tokens, 480u);
  EXPECT_EQ(result.sent_bytes, 512'000u + 32'000u);
  ASSERT_EQ(result.prefill_ns.size(), 2u);
  EXPECT_EQ(result.prefill_ns[1], 32 * 100'000);
  // Among many workers the router finds the one that holds it.
  const PlanResult many = Replayed(RoundFleet(50, 50), LoadOf({request, again}));
  EXPECT_EQ(many.cached_tokens, 480u);
  EXPECT_EQ(many.sent_bytes, 512'000u + 32'000u);
}

TEST(PlannedFleet, CountsWhatKeepsTheObjective) {
  FleetOptions fleet = RoundFleet(1, 1);
  fleet.objective = {{.name = "ttft", .time = LimitedTime::kTtft, .most_ns = 60 * kMs}};
  // The second waits for the first.
  const PlannedLoad load = LoadOf({{.at_ns = 0, .input_tokens = 512, .output_tokens = 1},
                                   {.at_ns = 10 * kMs, .input_tokens = 512, .output_tokens = 1},
                                   {.at_ns = 900 * kMs, .input_tokens = 512, .output_tokens = 1}});
  EXPECT_EQ(Replayed(fleet, load).good, 2u);
  fleet.most_bad = 0;
  const PlanResult stopped = Replayed(fleet, load);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.completed, 2u);
}

TEST(PlannedFleet, HasThousandsOfWorkers) {
  const PlannedLoad load = PoissonLoad(20'000, 512, 2, 1);
  const PlanResult result = Replayed(RoundFleet(2000, 2000), load);
  EXPECT_EQ(result.completed, load.requests.size());
  EXPECT_NEAR(result.prefill.busy, 20'000 * 0.0512 / 2000, 0.06);
  // Two that are drawn are seldom both busy where half of all are idle.
  EXPECT_LT(Mean(result.ttft_ns), 2 * 52.3 * kMs);
}

}  // namespace
}  // namespace baton
