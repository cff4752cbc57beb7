// The angles of rotary position embedding.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "common/model/rope_config.h"

namespace baton {

// Immutable: may be used from any thread.
class RopeTable {
 public:
  // `divisors` [dim / 2] are those that the config names; empty: 1.
  RopeTable(const RopeConfig& config, absl::Span<const float> divisors);

  // Fills `cosines` and `sines` [positions, dim / 2] as RopeConfig defines them, computed in double
  // and rounded once.
  void Fill(absl::Span<const int> positions, std::vector<float>& cosines,
            std::vector<float>& sines) const;

 private:
  double linear_scale_;
  double magnitude_;
  std::vector<double> frequencies_;  // [dim / 2]
};

}  // namespace baton
