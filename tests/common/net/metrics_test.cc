#include "common/net/metrics.h"

#include <string>

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

}  // namespace
}  // namespace baton
