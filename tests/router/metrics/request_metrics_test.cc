#include "router/metrics/request_metrics.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/metrics.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(RequestMetrics, EverySampleHasModelAndRole) {
  Metrics metrics("router");
  RequestMetrics requests(metrics, {.running = [] { return 2.0; }, .waiting = [] { return 3.0; }});
  metrics.SetModelName("smol\"lm");
  requests.Finished(absl::StatusCode::kOk, "stop", absl::Seconds(2), 10, 20);
  for (const absl::string_view line : absl::StrSplit(metrics.Scrape(), '\n', absl::SkipEmpty())) {
    if (absl::StartsWith(line, "#")) continue;
    EXPECT_TRUE(absl::StrContains(line, R"(model_name="smol\"lm")")) << line;
    EXPECT_TRUE(absl::StrContains(line, R"(role="router")")) << line;
  }
}

TEST(RequestMetrics, CountsRequestsTokensAndTimes) {
  Metrics metrics("router");
  double waiting = 3;
  RequestMetrics requests(metrics,
                          {.running = [] { return 2.0; }, .waiting = [&] { return waiting; }});
  metrics.SetModelName("m");
  requests.Finished(absl::StatusCode::kOk, "stop", absl::Milliseconds(900), 10, 20);
  requests.Finished(absl::StatusCode::kOk, "stop", absl::Milliseconds(900), 10, 5);
  requests.Finished(absl::StatusCode::kUnavailable, "", absl::Seconds(1), 10, 0);
  requests.PromptTokens(16, 4);
  requests.FirstToken(absl::Milliseconds(50));
  requests.NextToken(absl::Milliseconds(3));
  requests.PerOutputToken(absl::Milliseconds(4));
  const std::string text = metrics.Scrape();
  const auto expect = [&](const std::string& name, const std::string& labels,
                          const std::string& value) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(name, "{", labels, labels.empty() ? "" : ",",
                                             R"(model_name="m",role="router"} )", value, "\n")));
  };
  expect("baton_requests_total", R"(finish_reason="stop",status="OK")", "2");
  expect("baton_requests_total", R"(finish_reason="",status="UNAVAILABLE")", "1");
  expect("baton_requests_running", "", "2");
  expect("baton_requests_waiting", R"(reason="queue")", "3");
  expect("baton_generation_tokens_total", "", "25");
  expect("baton_prompt_tokens_total", R"(source="cached")", "4");
  expect("baton_request_duration_seconds_count", "", "3");
  expect("baton_inter_token_latency_seconds_sum", "", "0.003");
  expect("baton_request_time_per_output_token_seconds_sum", "", "0.004");
  EXPECT_THAT(text, HasSubstr(R"(le="0.06"} 1)")) << "50 ms is in the bucket up to 60 ms";
  waiting = 0;
  EXPECT_THAT(
      metrics.Scrape(),
      HasSubstr(R"(baton_requests_waiting{reason="queue",model_name="m",role="router"} 0)"));
}

}  // namespace
}  // namespace baton
