#include "common/model/rope_table.h"

#include <algorithm>

#include "common/backend/exact_math.h"

namespace baton {

RopeTable::RopeTable(const RopeConfig& config, absl::Span<const float> divisors)
    : linear_scale_(config.linear_scale), magnitude_(config.magnitude) {
  const double ramp = std::max(0.001, config.ramp_high - config.ramp_low);
  for (int i = 0; i < config.dim / 2; ++i) {
    const double divisor = divisors.empty() ? 1.0 : double{divisors[static_cast<size_t>(i)]};
    double frequency = Pow(config.base, -2.0 * i / config.dim) / divisor;
    if (config.yarn_factor != 1) {
      const double keep = 1 - std::clamp((i - config.ramp_low) / ramp, 0.0, 1.0);
      frequency *= keep + (1 - keep) / config.yarn_factor;
    }
    frequencies_.push_back(frequency);
  }
}

void RopeTable::Fill(absl::Span<const int> positions, std::vector<float>& cosines,
                     std::vector<float>& sines) const {
  cosines.clear();
  sines.clear();
  for (const int position : positions) {
    for (const double frequency : frequencies_) {
      const double angle = position / linear_scale_ * frequency;
      cosines.push_back(static_cast<float>(Cos(angle) * magnitude_));
      sines.push_back(static_cast<float>(Sin(angle) * magnitude_));
    }
  }
}

}  // namespace baton
