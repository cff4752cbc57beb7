#include "bench/serve/report/percentile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace baton {
namespace {

// By its definition, without ranks: the smallest sample that `percent` of 100 do not exceed.
int64_t ByCounting(const std::vector<int64_t>& samples, int percent) {
  std::vector<int64_t> candidates = samples;
  std::sort(candidates.begin(), candidates.end());
  for (const int64_t candidate : candidates) {
    const auto not_above = static_cast<size_t>(std::count_if(
        samples.begin(), samples.end(), [&](int64_t sample) { return sample <= candidate; }));
    if (not_above * 100 >= static_cast<size_t>(percent) * samples.size()) return candidate;
  }
  return 0;
}

TEST(Percentile, IsTheSmallestSampleThatThatShareDoesNotExceed) {
  std::mt19937_64 random(1);
  for (size_t size = 1; size <= 120; ++size) {
    std::vector<int64_t> samples(size);
    for (int64_t& sample : samples) sample = static_cast<int64_t>(random() % 50) - 10;
    for (const int percent : {0, 1, 33, 50, 90, 95, 99, 100}) {
      EXPECT_EQ(Percentile(samples, percent), ByCounting(samples, percent))
          << size << " samples, p" << percent;
    }
  }
}

TEST(Percentile, OfKnownSamples) {
  std::vector<int64_t> samples;
  for (int64_t i = 100; i > 0; --i) samples.push_back(i);
  EXPECT_EQ(Percentile(samples, 50), 50);
  EXPECT_EQ(Percentile(samples, 99), 99);
  EXPECT_EQ(Percentile(samples, 100), 100);
  EXPECT_EQ(Percentile({7}, 1), 7);
  EXPECT_EQ(Percentile({}, 50), 0);
}

}  // namespace
}  // namespace baton
