#include "common/net/vllm_names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/net/metrics.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kModel[] = R"(engine="0",model_name="m"} )";

class VllmNamesTest : public ::testing::Test {
 protected:
  VllmNamesTest() {
    metrics_.SetModelName("m");
    metrics_.ShowVllmNames();
  }
  // A sample without labels of its own.
  void ExpectSample(const std::string& name, const std::string& value) {
    EXPECT_THAT(metrics_.Scrape(), HasSubstr(name + "{" + kModel + value + "\n"));
  }

  Metrics metrics_{"router"};
};

TEST(VllmNames, AreThereOnlyOnDemand) {
  Metrics metrics("router");
  metrics.AddGauge("baton_requests_running", "", {}, [] { return 3.0; });
  EXPECT_THAT(metrics.Scrape(), Not(HasSubstr("vllm:")));
  metrics.ShowVllmNames();
  const std::string text = metrics.Scrape();
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:num_requests_running gauge"));
  EXPECT_THAT(text, HasSubstr("baton_requests_running{")) << "ours stay";
}

TEST_F(VllmNamesTest, WhatWaitsForAnyReasonWaits) {
  for (const char* reason : {"queue", "memory"}) {
    metrics_.AddGauge("baton_requests_waiting", "", {{"reason", reason}}, [] { return 2.0; });
  }
  ExpectSample("vllm:num_requests_waiting", "4");
}

TEST_F(VllmNamesTest, PromptTokensAreLookedUpAndSomeAreFound) {
  metrics_.AddCounter("baton_prompt_tokens_total", "", {{"source", "computed"}}).Add(30);
  metrics_.AddCounter("baton_prompt_tokens_total", "", {{"source", "cached"}}).Add(12);
  ExpectSample("vllm:prompt_tokens_total", "42");
  ExpectSample("vllm:prefix_cache_queries_total", "42");
  ExpectSample("vllm:prefix_cache_hits_total", "12");
}

TEST_F(VllmNamesTest, RequestsEndForOneOfVllmsReasons) {
  const auto ended = [this](const char* status, const char* finish) {
    metrics_.AddCounter("baton_requests_total", "", {{"status", status}, {"finish_reason", finish}})
        .Add();
  };
  ended("OK", "stop");
  ended("CANCELLED", "");
  ended("UNAVAILABLE", "");
  ended("INTERNAL", "");
  const std::string text = metrics_.Scrape();
  const auto counted = [&](const std::string& reason, const std::string& value) {
    EXPECT_THAT(text, HasSubstr(R"(vllm:request_success_total{engine="0",finished_reason=")" +
                                reason + R"(",model_name="m"} )" + value + "\n"));
  };
  counted("stop", "1");
  counted("abort", "1");
  counted("error", "2");
}

TEST_F(VllmNamesTest, OfTheWaitsOnlyThatOfThisProcessCounts) {
  for (const char* stage : {"router", "prefill"}) {
    metrics_
        .AddHistogram("baton_request_queue_seconds", "", RequestDurationBuckets(),
                      {{"stage", stage}})
        .Observe(0.25);
  }
  ExpectSample("vllm:request_queue_time_seconds_count", "1");
  ExpectSample("vllm:request_queue_time_seconds_sum", "0.25");
}

TEST_F(VllmNamesTest, FailuresOfEveryReasonAreOneNumber) {
  for (const char* reason : {"lost", "damaged"}) {
    metrics_.AddCounter("baton_kv_transfer_failures_total", "", {{"reason", reason}}).Add(2);
  }
  ExpectSample("vllm:nixl_num_failed_transfers_total", "4");
}

TEST_F(VllmNamesTest, TheCachesSizesHaveVllmsLabels) {
  metrics_.AddInfo("baton_config_info", "",
                   {{"block_size", "32"}, {"kv_blocks", "512"}, {"kv_cache_dtype", "f16"}});
  EXPECT_THAT(metrics_.Scrape(),
              HasSubstr(R"(vllm:cache_config_info{block_size="32",cache_dtype="f16",engine="0",)"
                        R"(model_name="m",num_gpu_blocks="512"} 1)"));
}

TEST_F(VllmNamesTest, ARouterWithoutACacheHasNoSizes) {
  metrics_.AddInfo("baton_config_info", "", {{"policy", "prefix_aware"}});
  EXPECT_THAT(metrics_.Scrape(), Not(HasSubstr("vllm:cache_config_info")));
}

}  // namespace
}  // namespace baton
