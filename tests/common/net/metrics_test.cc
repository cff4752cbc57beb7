#include "common/net/metrics.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, SaysWhatTheProcessIs) {
  Metrics metrics("decode");
  const std::string text = metrics.Scrape();
  EXPECT_THAT(text, HasSubstr("baton_build_info{version=\""));
  EXPECT_THAT(text, HasSubstr("# TYPE process_start_time_seconds gauge"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter"));
}

TEST(Metrics, BucketsAscend) {
  for (const auto& buckets :
       {TimeToFirstTokenBuckets(), InterTokenBuckets(), RequestDurationBuckets(),
        TransferDurationBuckets(), TokenCountBuckets()}) {
    for (size_t i = 1; i < buckets.size(); ++i) EXPECT_LT(buckets[i - 1], buckets[i]);
  }
}

TEST(Metrics, AHistogramThatIsCountedElsewhereIsOneLikeAnyOther) {
  Metrics metrics("decode");
  const std::vector<double> bounds = {1, 8};
  metrics.AddHistogramFunction("steps", "Steps.", bounds, {}, [] {
    return HistogramState{.counts = {2, 3, 1}, .sum = 40};
  });
  const std::string text = metrics.Scrape();
  const std::string labels = "model_name=\"\",role=\"decode\"";
  EXPECT_THAT(text, HasSubstr("# TYPE steps histogram"));
  EXPECT_THAT(text, HasSubstr("steps_bucket{" + labels + ",le=\"1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("steps_bucket{" + labels + ",le=\"8\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("steps_bucket{" + labels + ",le=\"+Inf\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("steps_count{" + labels + "} 6\n"));
  EXPECT_THAT(text, HasSubstr("steps_sum{" + labels + "} 40\n"));
}

}  // namespace
}  // namespace baton
