#include "client/plan/gap_histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "bench/serve/report/percentile.h"

namespace baton {
namespace {

TEST(GapHistogram, HasThePercentilesOfItsSamplesToHalfAPercent) {
  std::mt19937_64 random(1);
  GapHistogram gaps;
  std::vector<int64_t> samples;
  for (int i = 0; i < 20'000; ++i) {
    // From nanoseconds to hours.
    samples.push_back(static_cast<int64_t>(std::exp(static_cast<double>(random() % 30'000) / 1e3)));
    gaps.Add(samples.back());
  }
  for (const int percent : {1, 25, 50, 90, 99}) {
    const auto exact = static_cast<double>(Percentile(samples, percent));
    EXPECT_NEAR(gaps.PercentileNs(percent), exact, 0.004 * exact + 0.5) << percent;
  }
  EXPECT_EQ(gaps.count(), 20'000u);
  EXPECT_EQ(gaps.most_ns(), Percentile(samples, 100));
}

TEST(GapHistogram, IsExactForShortTimesAndNothingWithoutAny) {
  GapHistogram gaps;
  EXPECT_EQ(gaps.PercentileNs(99), 0);
  EXPECT_EQ(gaps.mean_ns(), 0);
  for (int64_t ns = 0; ns < 256; ++ns) gaps.Add(ns);
  EXPECT_EQ(gaps.PercentileNs(50), 127);
  EXPECT_EQ(gaps.PercentileNs(100), 255);
  EXPECT_EQ(gaps.mean_ns(), 127.5);
}

}  // namespace
}  // namespace baton
