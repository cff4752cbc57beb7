#include "router/planner/steady_count.h"

#include <algorithm>
#include <cmath>

namespace baton {

uint32_t SteadyCount::Sufficing(double needed) {
  const double whole =
      std::ceil(needed / kTolerance - 1e-9);  // a rounding error asks for no worker
  return static_cast<uint32_t>(std::clamp(whole, 1.0, static_cast<double>(kMost)));
}

uint32_t SteadyCount::Take(double needed, absl::Time now) {
  if (count_ == 0) first_ = now;
  while (!falling_.empty() && falling_.back().needed <= needed) falling_.pop_back();
  falling_.push_back({now, needed});
  while (now - falling_.front().at > hold_) falling_.pop_front();
  count_ = std::max(count_, Sufficing(needed));
  if (now - first_ >= hold_) {
    count_ = std::min(count_, Sufficing(falling_.front().needed * kMargin));
    count_ = std::max(count_, Sufficing(needed));
  }
  return count_;
}

}  // namespace baton
