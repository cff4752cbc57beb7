#include "router/web/web_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;
using testing::Not;

// The end of a sample's last label, and the labels that all samples have.
const std::string kEndOfLabels = "\",model_name=\"\",role=\"router\"} ";

TEST(WebMetrics, AnswersAreCountedByRouteAndClassOfStatus) {
  Metrics metrics("router");
  WebMetrics web(metrics);
  web.Answered("/v1/completions", 200, absl::Milliseconds(30));
  web.Answered("/completions", 204, absl::Milliseconds(30));
  web.Answered("/v1/completions", 429, absl::Milliseconds(1));
  const std::string page = metrics.Scrape();
  const auto counted = [&](const char* status, int count) {
    return HasSubstr("route=\"/v1/completions\",status=\"" + std::string(status) + kEndOfLabels +
                     std::to_string(count) + "\n");
  };
  EXPECT_THAT(page, counted("2xx", 2));
  EXPECT_THAT(page, counted("4xx", 1));
  EXPECT_THAT(page, HasSubstr("_count{route=\"/v1/completions" + kEndOfLabels + "3\n"))
      << "times of all three";
}

TEST(WebMetrics, WhatClientsAskForMakesNoLabels) {
  Metrics metrics("router");
  WebMetrics web(metrics);
  for (int i = 0; i < 100; ++i) {
    web.Answered("/elsewhere/" + std::to_string(i), 404, absl::Milliseconds(1));
    web.Answered("/v1/models/" + std::to_string(i), 404, absl::Milliseconds(1));
  }
  const std::string page = metrics.Scrape();
  EXPECT_THAT(page, HasSubstr("route=\"other\",status=\"4xx" + kEndOfLabels + "100\n"));
  EXPECT_THAT(page, HasSubstr("route=\"/v1/models/{id}\",status=\"4xx" + kEndOfLabels + "100\n"));
  EXPECT_THAT(page, Not(HasSubstr("elsewhere")));
}

TEST(WebMetrics, ARequestWhoseHeadersNeverCameHasNoTime) {
  Metrics metrics("router");
  WebMetrics(metrics).Answered("", 400, std::nullopt);
  const std::string page = metrics.Scrape();
  EXPECT_THAT(page, HasSubstr("route=\"other\",status=\"4xx" + kEndOfLabels + "1\n"));
  EXPECT_THAT(page, Not(HasSubstr("baton_http_time_to_headers_seconds")));
}

}  // namespace
}  // namespace baton
