// Percentiles by nearest rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace baton {

// The smallest sample that at least `percent` of a hundred samples do not exceed: that of rank
// ceil(percent * n / 100), counted from 1 (nearest rank; numpy's "inverted_cdf"). So it is always a
// sample that was seen. The smallest for 0; 0 without samples. REQUIRES: `samples` are in order.
inline int64_t PercentileOfSorted(const std::vector<int64_t>& samples, int percent) {
  if (samples.empty()) return 0;
  const size_t rank = (samples.size() * static_cast<size_t>(percent) + 99) / 100;
  return samples[std::max<size_t>(rank, 1) - 1];
}

// The same of samples in any order.
inline int64_t Percentile(std::vector<int64_t> samples, int percent) {
  std::sort(samples.begin(), samples.end());
  return PercentileOfSorted(samples, percent);
}

}  // namespace baton
