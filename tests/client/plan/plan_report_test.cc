#include "client/plan/plan_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/plan/planned_things.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

PlanReport MakeReport() {
  PlanReport report{.model = "tiny \"x\"", .objective = "ttft=1s", .result = {}};
  report.result = {.offered = 4, .completed = 3, .refused = 1, .good = 2};
  report.result.span_ns = 2'000'000'000;
  report.result.tokens = 30;
  report.result.input_tokens = 300;
  report.result.cached_tokens = 75;
  report.result.ttft_ns = {30 * kMs, 10 * kMs, 20 * kMs};
  report.result.itl.Add(5 * kMs);
  report.result.prefill = {.workers = 3, .busy = 0.25, .most_busy = 0.5};
  report.result.decode = {.workers = 2, .rows_per_step = 7, .preemptions = 9};
  return report;
}

TEST(PlanReport, AsJsonHasTheNamesOfTheLoadReport) {
  PlanReport report = MakeReport();
  report.found = FoundFleet{.size = {3, 2}, .replays = 12, .is_smallest = true};
  const auto json = nlohmann::json::parse(FormatPlanJson(report));
  EXPECT_EQ(json["model"], "tiny \"x\"");
  EXPECT_EQ(json["search"]["total"], 5);
  EXPECT_EQ(json["search"]["is_smallest"], true);
  EXPECT_EQ(json["prefill"]["workers"], 3);
  EXPECT_EQ(json["prefill"]["most_busy"], 0.5);
  EXPECT_EQ(json["decode"]["preemptions"], 9);
  EXPECT_EQ(json["good_share"], 0.5);
  EXPECT_EQ(json["goodput_per_s"], 1);
  EXPECT_EQ(json["tokens_per_s"], 15);
  EXPECT_EQ(json["cached_share"], 0.25);
  EXPECT_EQ(json["ttft_ms"]["p50"], 20);
  EXPECT_EQ(json["ttft_ms"]["max"], 30);
  EXPECT_EQ(json["ttft_ms"]["mean"], 20);
  EXPECT_EQ(json["ttft_ms"]["samples"], 3);
  EXPECT_NEAR(json["itl_ms"]["p99"].get<double>(), 5, 0.025);
  EXPECT_EQ(json["tpot_ms"]["samples"], 0);
  EXPECT_FALSE(nlohmann::json::parse(FormatPlanJson(MakeReport())).contains("search"));
}

TEST(PlanReport, AsATableIsForPeople) {
  PlanReport report = MakeReport();
  report.found = FoundFleet{.size = {3, 2}, .replays = 12, .is_smallest = false};
  report.warnings = {"look here"};
  const std::string text = FormatPlanTable(report);
  EXPECT_THAT(
      text,
      HasSubstr("5 workers in total: this number meets the objective, and a slightly smaller"));
  EXPECT_THAT(text, HasSubstr("prefill: 3 workers, 25.0 % busy"));
  EXPECT_THAT(text, HasSubstr("9 preemptions"));
  EXPECT_THAT(text, HasSubstr("refused 1"));
  EXPECT_THAT(text, HasSubstr("| ttft_ms "));
  EXPECT_THAT(text, HasSubstr("NOTE: look here"));
}

TEST(PlanWarnings, TellWhatTheFiguresDoNot) {
  const StepCosts costs = RoundCosts();  // up to batches of 11
  PlanResult calm = MakeReport().result;
  calm.refused = 0;
  EXPECT_THAT(PlanWarnings(calm, costs), IsEmpty());
  PlanResult wild = calm;
  wild.decode.rows_per_step = 40;
  wild.decode.most_busy = 0.99;
  wild.refused = 3;
  EXPECT_THAT(PlanWarnings(wild, costs), ElementsAre(HasSubstr("measured with at most 11"),
                                                     HasSubstr("3 requests were refused"),
                                                     HasSubstr("busy for more than 95 %")));
}

}  // namespace
}  // namespace baton
