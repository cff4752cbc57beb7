#include "router/planner/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton {

void StepTime::Add(const Sample& sample) {
  const double keep = std::exp2(-1 / kHalfLife);
  for (double* sum :
       {&weight_, &sequences_, &seconds_, &tokens_, &tokens_squared_, &seconds_tokens_,
        &sequences_tokens_, &used_blocks_, &total_blocks_, &most_sequences_, &most_with_queue_}) {
    *sum *= keep;
  }
  const double n = sample.sequences, y = sample.tokens_per_second, s = n / y;
  weight_ += 1;
  sequences_ += n;
  seconds_ += s;
  tokens_ += y;
  tokens_squared_ += y * y;
  seconds_tokens_ += s * y;
  sequences_tokens_ += n * y;
  used_blocks_ += sample.used_blocks;
  total_blocks_ += sample.total_blocks;
  most_sequences_ = std::max(most_sequences_, n);
  if (sample.always_waited) most_with_queue_ = std::max(most_with_queue_, n);
}

std::optional<StepTime::Line> StepTime::Fit() const {
  if (weight_ < kLeastSamples * std::exp2(-kLeastSamples / kHalfLife)) return std::nullopt;
  const double n = sequences_ / weight_, s = seconds_ / weight_, y = tokens_ / weight_;
  const double spread = tokens_squared_ / weight_ - y * y;
  const double by_sequences = sequences_tokens_ / weight_ - n * y;
  const double by_seconds = seconds_tokens_ / weight_ - s * y;
  const double least_spread = kLeastSpread * y;
  if (spread < least_spread * least_spread || by_sequences <= 0) return std::nullopt;
  const double more = std::max(0.0, by_seconds / by_sequences);
  const double alone = s - more * n;
  if (alone > 0) return Line{.alone = alone, .more = more};
  return Line{.alone = 0, .more = s / n};
}

std::optional<StepTime::Capacity> StepTime::Find(double objective_seconds) const {
  const std::optional<Line> line = Fit();
  if (!line.has_value()) return std::nullopt;
  Capacity capacity;
  capacity.objective_is_missed = objective_seconds > 0 && objective_seconds <= line->alone;
  const double limit = objective_seconds > line->alone ? objective_seconds : 2 * line->alone;
  capacity.alone_seconds = line->alone;
  capacity.more_seconds = line->more;
  capacity.limit_seconds = limit;
  double most = std::numeric_limits<double>::infinity();
  const auto lower = [&](double sequences, Bound bound) {
    if (sequences >= most) return;
    most = sequences;
    capacity.bound = bound;
  };
  if (line->more > 0) lower((limit - line->alone) / line->more, Bound::kObjective);
  if (used_blocks_ > 0 && total_blocks_ > 0) {
    lower(total_blocks_ / used_blocks_ * sequences_ / weight_, Bound::kMemory);
  }
  if (most_with_queue_ > 0) lower(most_with_queue_, Bound::kPlaces);
  lower(kBeyondSeen * most_sequences_, Bound::kSeen);
  capacity.sequences = std::max(1.0, most);
  capacity.seconds_per_token = line->alone + line->more * capacity.sequences;
  return capacity;
}

}  // namespace baton
