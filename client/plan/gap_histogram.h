// Counts of times, of which there may be 10^8: one for each gap between two tokens.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace baton {

// Times are counted in classes that are 1/128 wide, relative to the time. So a percentile is right
// to 0.4 %; mean, count and maximum are exact. Not thread-safe.
class GapHistogram {
 public:
  // REQUIRES: the time is not negative.
  void Add(int64_t ns) {
    const size_t index = ClassOf(static_cast<uint64_t>(ns));
    if (index >= counts_.size()) counts_.resize(index + 1);
    ++counts_[index];
    ++count_;
    sum_ns_ += static_cast<double>(ns);
    most_ns_ = std::max(most_ns_, ns);
  }

  uint64_t count() const { return count_; }
  int64_t most_ns() const { return most_ns_; }
  double mean_ns() const { return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_); }

  // By nearest rank, as PercentileOfSorted: the middle of the class of that sample; 0 without any.
  double PercentileNs(int percent) const {
    if (count_ == 0) return 0;
    const uint64_t rank =
        std::max<uint64_t>(1, (count_ * static_cast<uint64_t>(percent) + 99) / 100);
    uint64_t seen = 0;
    size_t index = 0;
    while (seen + counts_[index] < rank) seen += counts_[index++];
    return std::min(MiddleOf(index), static_cast<double>(most_ns_));
  }

 private:
  static constexpr int kBits = 7;  // bits behind a time's first one that name its class

  static size_t ClassOf(uint64_t ns) {
    const int width = static_cast<int>(std::bit_width(ns));
    if (width <= kBits + 1) return static_cast<size_t>(ns);
    const int shift = width - kBits - 1;
    return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(ns >> shift);
  }
  static double MiddleOf(size_t index) {
    if (index < size_t{2} << kBits) return static_cast<double>(index);
    const size_t shift = (index >> kBits) - 1;
    const size_t lead = index - (shift << kBits);
    return (static_cast<double>(lead) + 0.5) * static_cast<double>(uint64_t{1} << shift);
  }

  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ns_ = 0;
  int64_t most_ns_ = 0;
};

}  // namespace baton
