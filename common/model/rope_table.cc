#include "common/model/rope_table.h"

#include "common/backend/exact_math.h"

namespace baton {

RopeTable::RopeTable(const ModelConfig& config, absl::Span<const float> divisors)
    : linear_scale_(config.rope_linear_scale) {
  for (int i = 0; i < config.rope_dim / 2; ++i) {
    const double frequency = Pow(config.rope_base, -2.0 * i / config.rope_dim);
    const double divisor = divisors.empty() ? 1.0 : double{divisors[static_cast<size_t>(i)]};
    frequencies_.push_back(frequency / divisor);
  }
}

void RopeTable::Fill(absl::Span<const int> positions, std::vector<float>& cosines,
                     std::vector<float>& sines) const {
  cosines.clear();
  sines.clear();
  for (const int position : positions) {
    for (const double frequency : frequencies_) {
      const double angle = position / linear_scale_ * frequency;
      cosines.push_back(static_cast<float>(Cos(angle)));
      sines.push_back(static_cast<float>(Sin(angle)));
    }
  }
}

}  // namespace baton
