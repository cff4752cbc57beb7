#include "router/metrics/router_metrics.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

absl::Status RefusedFor(const std::string& reason) {
  return WithErrorInfo(absl::ResourceExhaustedError("full"), {.reason = reason});
}

class RouterMetricsTest : public testing::Test {
 protected:
  // The value of the only sample that begins so, or what is wrong.
  std::string Sample(const std::string& name, const std::string& label = "") const {
    std::string found = "none";
    const std::string text = metrics_.Scrape();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, absl::StrCat(name, "{")) || !absl::StrContains(line, label)) {
        continue;
      }
      found = found == "none" ? std::string(line.substr(line.rfind(' ') + 1)) : "several";
    }
    return found;
  }

  // The workers of baton_worker_up by its value.
  struct Workers {
    std::set<std::string> up, down;
  };
  Workers Up() const {
    Workers workers;
    const std::string text = metrics_.Scrape();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::StartsWith(line, "baton_worker_up{")) continue;
      const std::vector<std::string> parts = absl::StrSplit(line, '"');
      EXPECT_TRUE((absl::EndsWith(line, " 1") ? workers.up : workers.down).insert(parts[1]).second)
          << line;
    }
    return workers;
  }
  int Count(const std::string& name) const {
    int samples = 0;
    const std::string text = metrics_.Scrape();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      samples += absl::StartsWith(line, absl::StrCat(name, "{")) ? 1 : 0;
    }
    return samples;
  }
  void Pass(absl::Duration duration) { router_.Tick(now_ += duration); }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Metrics metrics_{"router"};
  Admission admission_{{.requests = 10}};
  RouterMetrics router_{metrics_, admission_};
};

TEST_F(RouterMetricsTest, CountsRefusalsByReasonOrByCode) {
  router_.Refused(RefusedFor("QUEUE_FULL"));
  router_.Refused(RefusedFor("QUEUE_FULL"));
  router_.Refused(absl::UnauthenticatedError("who?"));
  router_.Refused(absl::CancelledError("the client left"));
  EXPECT_THAT(router_.refusals(),
              UnorderedElementsAre(Pair("QUEUE_FULL", 2u), Pair("UNAUTHENTICATED", 1u)));
  EXPECT_EQ(Sample("baton_router_refusals_total", R"(reason="QUEUE_FULL")"), "2");
}

TEST_F(RouterMetricsTest, TheReasonsOfWorkersAreBounded) {
  for (int i = 0; i < 100; ++i) router_.Refused(RefusedFor(absl::StrCat("REASON_", i)));
  router_.Refused(RefusedFor("REASON_0"));
  EXPECT_LE(router_.refusals().size(), 33u);
  EXPECT_EQ(router_.refusals()["REASON_0"], 2u);
  EXPECT_EQ(router_.refusals()["OTHER"], 100 - 32u);
}

TEST_F(RouterMetricsTest, AWorkersGaugesSayWhatWasSetLast) {
  router_.SetUp("d", "decode", true);
  router_.SetUp("p", "prefill", true);
  router_.SetUp("p", "prefill", false);
  router_.SetPrefixPages("p", "prefill", 7);
  router_.SetQuarantined("p", "prefill", true);
  router_.SetCircuitOpen("d", "decode", true);
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="d",worker_role="decode")"), "1");
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="p")"), "0");
  EXPECT_EQ(Sample("baton_router_prefix_pages"), "7");
  EXPECT_EQ(Sample("baton_worker_quarantined"), "1");
  EXPECT_EQ(Sample("baton_worker_circuit_open"), "1");
}

TEST_F(RouterMetricsTest, TheSeriesOfAWorkerThatLeftEndAfterAWhile) {
  Pass(absl::Seconds(1));
  router_.SetUp("d", "decode", true);
  router_.SetPrefixPages("d", "decode", 7);
  router_.SetCircuitOpen("d", "decode", true);
  router_.Selected("d", "decode", PlacementPolicy::kRoundRobin);
  router_.WorkerLeft("d", "decode");
  Pass(absl::Minutes(14));
  EXPECT_EQ(Sample("baton_worker_up"), "0") << "an alert sees that it left";
  EXPECT_EQ(Sample("baton_worker_circuit_open"), "0");
  EXPECT_EQ(Sample("baton_router_prefix_pages"), "0");
  EXPECT_EQ(Sample("baton_worker_selection_total"), "1");
  Pass(absl::Minutes(1));
  EXPECT_EQ(Sample("baton_worker_up"), "none");
  EXPECT_EQ(Sample("baton_worker_circuit_open"), "none");
  EXPECT_EQ(Sample("baton_router_prefix_pages"), "none");
  EXPECT_EQ(Sample("baton_worker_selection_total"), "none");
}

TEST_F(RouterMetricsTest, AWorkerThatComesBackKeepsItsSeries) {
  Pass(absl::Seconds(1));
  router_.SetUp("d", "decode", true);
  router_.WorkerLeft("d", "decode");
  Pass(absl::Minutes(10));
  router_.SetUp("d", "decode", true);
  Pass(absl::Minutes(10));
  EXPECT_EQ(Sample("baton_worker_up"), "1");
}

TEST_F(RouterMetricsTest, TheRolesOfOneAddressLeaveOneByOneAndShareTheirSelections) {
  for (const char* role : {"prefill", "decode"}) {
    router_.SetUp("a", role, true);
    router_.Selected("a", role, PlacementPolicy::kRoundRobin);
  }
  router_.WorkerLeft("a", "prefill");
  EXPECT_EQ(Sample("baton_worker_selection_total"), "2");
  Pass(absl::Minutes(20));
  EXPECT_EQ(Sample("baton_worker_up"), "1");
  EXPECT_EQ(Sample("baton_worker_selection_total"), "1");
}

// Every minute four workers leave and four others come, each at an address that was never used.
TEST_F(RouterMetricsTest, FiveThousandAddressesThatComeAndGoLeaveTheSeriesOfThoseThatAreThere) {
  constexpr int kFleet = 8, kComing = 4, kAddresses = 5000;
  int came = 0;
  const auto come = [&] {
    router_.SetUp(absl::StrCat("d", came), "decode", true);
    router_.Selected(absl::StrCat("d", came), "decode", PlacementPolicy::kRoundRobin);
    ++came;
  };
  while (came < kFleet) come();
  while (came < kAddresses) {
    for (int i = 0; i < kComing; ++i) come();
    for (int i = 0; i < kComing; ++i) {
      router_.WorkerLeft(absl::StrCat("d", came - kFleet - kComing + i), "decode");
    }
    Pass(absl::Minutes(1));
    if (came % 500 > kComing) continue;
    // As the alerts read them: a decode worker is ready, and a worker that left is seen to be gone
    // until its series ends.
    const Workers workers = Up();
    EXPECT_EQ(workers.up.size(), static_cast<size_t>(kFleet)) << came;
    EXPECT_EQ(workers.up.count(absl::StrCat("d", came - 1)), 1u);
    EXPECT_EQ(workers.down.size(), static_cast<size_t>(std::min(came - kFleet, 32))) << came;
    EXPECT_EQ(Count("baton_worker_selection_total"), Count("baton_worker_up"));
  }
  Pass(absl::Minutes(15));
  EXPECT_EQ(Up().up.size(), static_cast<size_t>(kFleet));
  EXPECT_TRUE(Up().down.empty());
}

TEST_F(RouterMetricsTest, WorkersThatLeftMakeRoomAtOnceForThoseThatAreThere) {
  for (int i = 0; i < 5000; ++i) {
    if (i >= 600) router_.WorkerLeft(absl::StrCat("d", i - 600), "decode");
    router_.SetUp(absl::StrCat("d", i), "decode", true);
  }
  const Workers workers = Up();
  EXPECT_EQ(workers.up.size(), 600u);
  EXPECT_EQ(workers.up.count("d4999"), 1u);
  EXPECT_EQ(workers.down.size(), WorkerSeries::kMostWorkers - 600);
}

TEST_F(RouterMetricsTest, AWholeFleetThatWasReplacedIsSeenAndOneThatIsReplacedAgainAndAgainIsNot) {
  for (int i = 0; i < 100; ++i) router_.SetUp(absl::StrCat("a", i), "decode", true);
  for (int i = 0; i < 100; ++i) router_.SetUp(absl::StrCat("b", i), "decode", true);
  for (int i = 0; i < 100; ++i) router_.WorkerLeft(absl::StrCat("a", i), "decode");
  EXPECT_EQ(Up().down.size(), 100u);
  for (int i = 2; i < 100; ++i) {
    Pass(absl::Seconds(1));
    router_.WorkerLeft(absl::StrCat("b", i), "decode");
  }
  EXPECT_EQ(Up().down.size(), 32u);
  EXPECT_EQ(Up().down.count("b99"), 1u) << "those that left last";
  EXPECT_THAT(Up().up, UnorderedElementsAre("b0", "b1"));
}

TEST_F(RouterMetricsTest, OfMoreWorkersThanTheBoundTheRestGetSeriesWhenOthersLeave) {
  for (int i = 0; i < 1100; ++i) router_.SetUp(absl::StrCat("d", i), "decode", true);
  EXPECT_EQ(Up().up.size(), WorkerSeries::kMostWorkers);
  router_.SetUp("d0", "decode", false);
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="d0")"), "0");
  router_.SetUp("d1099", "decode", false);
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="d1099")"), "none");
  for (int i = 0; i < 100; ++i) router_.WorkerLeft(absl::StrCat("d", i), "decode");
  EXPECT_EQ(Up().up.size(), 999u);
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="d1099")"), "0");
}

TEST_F(RouterMetricsTest, AdviceHasNoGaugeBeforeItIsKnown) {
  EXPECT_EQ(Sample("baton_router_needed_workers"), "none");
  router_.SetNeeded("prefill", 1.5);
  router_.SetAdvised("prefill", 2);
  router_.SetBalanced("prefill", 3);
  EXPECT_EQ(Sample("baton_router_needed_workers"), "1.5");
  EXPECT_EQ(Sample("baton_router_advised_workers"), "2");
  EXPECT_EQ(Sample("baton_router_balanced_workers"), "3");
}

TEST_F(RouterMetricsTest, ShowsRequestsThatRunAndStreamsThatAreBehind) {
  router_.Running(2);
  router_.Running(-1);
  router_.Behind(3);
  EXPECT_EQ(router_.running(), 1);
  EXPECT_EQ(Sample("baton_requests_running"), "1");
  EXPECT_EQ(Sample("baton_router_streams_behind"), "3");
  router_.Selected("d", "decode", PlacementPolicy::kRoundRobin);
  router_.Selected("d", "decode", PlacementPolicy::kRoundRobin);
  EXPECT_EQ(Sample("baton_worker_selection_total", R"(worker="d")"), "2");
}

TEST_F(RouterMetricsTest, CountsTheTimesBetweenTheTokensOfARequest) {
  MachineHarness harness = Prefilling();
  RequestObserver::Seen seen;
  const auto handled = [&] { router_.Handled(harness.machine, TimerFired{}, seen, harness.now); };
  handled();
  EXPECT_EQ(Sample("baton_time_to_first_token_seconds_count"), "0");
  harness.PrefillSends(Token(0, 0));
  handled();
  handled();
  EXPECT_EQ(Sample("baton_time_to_first_token_seconds_count"), "1");
  harness.now += absl::Milliseconds(250);
  harness.DecodeCommits();
  harness.DecodeSends({Token(0, 0), Token(1, 1)});
  handled();
  EXPECT_EQ(Sample("baton_time_to_first_token_seconds_count"), "1");
  EXPECT_EQ(Sample("baton_inter_token_latency_seconds_count"), "1");
  EXPECT_EQ(Sample("baton_inter_token_latency_seconds_sum"), "0.25");
}

TEST_F(RouterMetricsTest, AnErrorBeforeAWorkerHadTheRequestIsARefusal) {
  const MachineHarness waiting(MachineHarness::Spec(3));
  router_.Ended(waiting.machine, RefusedFor("QUEUE_TIME_EXCEEDED"), "", waiting.now);
  EXPECT_THAT(router_.refusals(), UnorderedElementsAre(Pair("QUEUE_TIME_EXCEEDED", 1u)));
  const MachineHarness admitted = Prefilling();
  router_.Ended(admitted.machine, RefusedFor("OUT_OF_KV_BLOCKS"), "", admitted.now);
  EXPECT_EQ(router_.refusals().size(), 1u);
  EXPECT_EQ(Sample("baton_requests_total", R"(status="RESOURCE_EXHAUSTED")"), "2");
}

TEST_F(RouterMetricsTest, CountsRetriesByTheLegThatBroke) {
  const auto broken = [](const char* stage) {
    return WithErrorInfo(absl::UnavailableError(""), {.reason = kReasonWorkerLost, .stage = stage});
  };
  router_.Retried(broken(kStageDecode));
  router_.Retried(broken(kStageTransfer));
  router_.Retried(broken(kStageQueue));
  EXPECT_EQ(Sample("baton_retries_total", R"("decode")"), "1");
  EXPECT_EQ(Sample("baton_retries_total", R"("prefill")"), "2");
}

TEST_F(RouterMetricsTest, CountsFailuresOfEachLinkByReasonAndThoseOfTooManyTogether) {
  router_.LinkFailed("p:1", "d:1", "silent");
  router_.LinkFailed("p:1", "d:1", "silent");
  router_.LinkFailed("p:1", "d:2", "broke");
  EXPECT_EQ(Sample("baton_router_link_failures_total", R"(reason="silent")"), "2");
  EXPECT_EQ(Sample("baton_router_link_failures_total", R"(decode="d:2")"), "1");
  for (int i = 0; i < 2000; ++i) router_.LinkFailed(absl::StrCat("p:", i), "d:9", "broke");
  EXPECT_EQ(Sample("baton_router_link_failures_total", R"(prefill="other")"), "978");
}

TEST_F(RouterMetricsTest, FailuresOfALinkEndWithTheSeriesOfEitherEnd) {
  Pass(absl::Seconds(1));
  for (const std::string end : {"1", "2"}) {
    router_.SetUp(absl::StrCat("p:", end), "prefill", true);
    router_.SetUp(absl::StrCat("d:", end), "decode", true);
  }
  router_.LinkFailed("p:1", "d:1", "broke");
  router_.LinkFailed("p:1", "d:2", "broke");
  router_.LinkFailed("p:2", "d:1", "broke");
  router_.WorkerLeft("p:1", "prefill");
  EXPECT_EQ(Count("baton_router_link_failures_total"), 3);
  Pass(absl::Minutes(15));
  EXPECT_EQ(Count("baton_router_link_failures_total"), 1);
  EXPECT_EQ(Sample("baton_router_link_failures_total", R"(prefill="p:2")"), "1");
  router_.WorkerLeft("d:1", "decode");
  Pass(absl::Minutes(15));
  EXPECT_EQ(Count("baton_router_link_failures_total"), 0);
}

}  // namespace
}  // namespace baton
