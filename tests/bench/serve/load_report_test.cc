#include "bench/serve/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using testing::HasSubstr;

TEST(LoadReport, APercentileIsTheSampleBelowWhichThatShareLies) {
  std::vector<float> samples;
  for (int i = 100; i > 0; --i) samples.push_back(static_cast<float>(i));
  EXPECT_EQ(Percentile(samples, 0.5), 50);
  EXPECT_EQ(Percentile(samples, 0.99), 99);
  EXPECT_EQ(Percentile(samples, 1), 100);
  EXPECT_EQ(Percentile({7}, 0.01), 7);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

TEST(LoadReport, ObjectivesNameWhatTheyLimit) {
  const auto objective = ParseLoadObjective("ttft=500ms,itl=0.1s");
  ASSERT_TRUE(objective.ok()) << objective.status();
  EXPECT_EQ(objective->ttft, absl::Milliseconds(500));
  EXPECT_EQ(objective->itl, absl::Milliseconds(100));
  EXPECT_EQ(objective->e2e, absl::InfiniteDuration());
  EXPECT_TRUE(ParseLoadObjective("").ok());
  EXPECT_THAT(ParseLoadObjective("speed=1s").status().ToString(), HasSubstr("'speed'"));
  EXPECT_FALSE(ParseLoadObjective("ttft=fast").ok());
}

TEST(LoadReport, JsonAndTableHaveEachClassWithItsRates) {
  LoadReport report{.window = absl::Seconds(4), .cpu_share = 0.05, .classes = {}};
  report.classes.push_back({.name = "short",
                            .offered = 8,
                            .refused = 1,
                            .failed = 1,
                            .completed = 6,
                            .good = 4,
                            .tokens = 40,
                            .ttft_ms = {1, 2, 3},
                            .failures = {{"UNAVAILABLE: gone", 1}}});
  const nlohmann::json json = nlohmann::json::parse(FormatJson(report));
  const nlohmann::json& row = json["classes"]["short"];
  EXPECT_EQ(row["offered_per_s"], 2);
  EXPECT_EQ(row["goodput_per_s"], 1);
  EXPECT_EQ(row["tokens_per_s"], 10);
  EXPECT_EQ(row["ttft_ms"]["p50"], 2);
  EXPECT_EQ(row["ttft_ms"]["samples"], 3);
  EXPECT_EQ(row["failures"]["UNAVAILABLE: gone"], 1);
  const std::string table = FormatTable(report);
  EXPECT_THAT(table, HasSubstr("short: offered 8 (2.0/s), refused 1"));
  EXPECT_THAT(table, HasSubstr("1 failed: UNAVAILABLE: gone"));
}

}  // namespace
}  // namespace baton
