#include "bench/serve/report/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/serve/report/html_report.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

LoadReport Report() {
  LoadReport report{.window = {.from_ns = 0, .until_ns = 4'000'000'000},
                    .target = "grpc://127.0.0.1:1",
                    .objective = "ttft=2ms",
                    .cpu_share = 0.05};
  LoadSamples load;
  load.name = "short";
  load.offered = 8;
  load.refused = load.failed = 1;
  load.completed = 6;
  load.good = 4;
  load.tokens = load.messages = 40;
  load.ttft = {{0, kMs}, {5, 3 * kMs}, {9, 2 * kMs}};
  load.send_lag = {{0, 10}, {5, 10}, {9, 10}};
  load.stages[0] = {{0, 5 * kMs}};
  load.failures = {{"UNAVAILABLE: <gone>", 1}};
  report.classes.push_back(load);
  return report;
}

TEST(LoadReport, JsonAndTableHaveEachClassWithItsRates) {
  const nlohmann::json json = nlohmann::json::parse(FormatJson(Report()));
  const nlohmann::json& row = json["classes"]["short"];
  EXPECT_EQ(row["offered_per_s"], 2);
  EXPECT_EQ(row["goodput_per_s"], 1);
  EXPECT_EQ(row["good_share"], 0.5);
  EXPECT_EQ(row["tokens_per_s"], 10);
  EXPECT_EQ(row["ttft_ms"]["p50"], 2);
  EXPECT_EQ(row["ttft_ms"]["mean"], 2);
  EXPECT_EQ(row["ttft_ms"]["max"], 3);
  EXPECT_EQ(row["ttft_ms"]["samples"], 3);
  EXPECT_EQ(row["stages"]["queue_ms"]["p99"], 5);
  EXPECT_EQ(row["failures"]["UNAVAILABLE: <gone>"], 1);
  const std::string table = FormatTable(Report());
  EXPECT_THAT(table, HasSubstr("short: offered 8 (2.0/s), refused 1"));
  EXPECT_THAT(table, HasSubstr("1 failed: UNAVAILABLE: <gone>"));
}

TEST(LoadReport, SaysWhenTheGeneratorCouldNotKeepUp) {
  LoadReport report = Report();
  EXPECT_TRUE(report.kept_up());
  EXPECT_THAT(Warnings(report), IsEmpty());
  report.classes[0].send_lag[1].value_ns = 11 * kMs;
  EXPECT_FALSE(report.kept_up());
  EXPECT_THAT(Warnings(report), ElementsAre(HasSubstr("33.3 % of the requests")));
  EXPECT_THAT(FormatTable(report), HasSubstr("could not keep up"));
  EXPECT_EQ(nlohmann::json::parse(FormatJson(report))["kept_up"], false);
  report = Report();
  report.thread_busy = 0.95;
  EXPECT_FALSE(report.kept_up());
}

TEST(LoadReport, SaysHowTokensWereCounted) {
  LoadReport report = Report();
  report.classes[0].tokens = 100;
  report.classes[0].shorter = 2;
  report.classes[0].spread = 3;
  report.classes[0].uncounted = 4;
  EXPECT_THAT(Warnings(report),
              ElementsAre(HasSubstr("2 answers were shorter"), HasSubstr("3 answers told"),
                          HasSubstr("4 answers did not tell"), HasSubstr("2.50 tokens")));
}

TEST(HtmlReport, HasChartsWithUnitsAndNothingThatActs) {
  const std::string html = FormatHtml(Report());
  for (const char* part :
       {"TTFT, ms", "share of samples, %", "requests/s", "time in the window, s", "no samples",
        "prefers-color-scheme: dark", "UNAVAILABLE: &lt;gone&gt;"}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* part : {"<script", "<gone>", "href", "src=", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(part)));
  }
}

}  // namespace
}  // namespace baton
