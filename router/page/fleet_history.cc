#include "router/page/fleet_history.h"

#include <utility>

namespace baton {

void FleetHistory::SawFirstToken(absl::Duration since_received) {
  absl::MutexLock lock(&mutex_);
  ++first_tokens_;
  first_token_sum_ += since_received;
}

void FleetHistory::Tick(FleetPoint point) {
  absl::MutexLock lock(&mutex_);
  if (!points_.empty() && point.at - points_.back().at < kInterval) return;
  const uint64_t count = std::exchange(first_tokens_, 0);
  const absl::Duration sum = std::exchange(first_token_sum_, absl::ZeroDuration());
  point.first_token.reset();
  if (count > 0) point.first_token = sum / static_cast<double>(count);
  points_.push_back(point);
  if (points_.size() > kBound) points_.pop_front();
}

std::vector<FleetPoint> FleetHistory::Get(absl::Time now) const {
  absl::MutexLock lock(&mutex_);
  std::vector<FleetPoint> recent;
  for (const FleetPoint& point : points_) {
    if (now - point.at <= kLength) recent.push_back(point);
  }
  return recent;
}

}  // namespace baton
