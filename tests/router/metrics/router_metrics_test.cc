#include "router/metrics/router_metrics.h"

#include <string>

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

TEST_F(RouterMetricsTest, AFleetThatComesAndGoesStaysBounded) {
  for (int i = 0; i < 1100; ++i) router_.SetUp(absl::StrCat("d", i), "decode", true);
  int samples = 0;
  const std::string text = metrics_.Scrape();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    samples += absl::StartsWith(line, "baton_worker_up{") ? 1 : 0;
  }
  EXPECT_EQ(samples, 1024);
  router_.SetUp("d0", "decode", false);
  EXPECT_EQ(Sample("baton_worker_up", R"(worker="d0")"), "0") << "those that are known go on";
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
  router_.Selected("d", PlacementPolicy::kRoundRobin);
  router_.Selected("d", PlacementPolicy::kRoundRobin);
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

}  // namespace
}  // namespace baton
