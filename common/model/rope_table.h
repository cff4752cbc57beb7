// The angles of rotary position embedding.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "common/model/config.h"

namespace baton {

// Immutable: may be used from any thread.
class RopeTable {
 public:
  // `divisors` [rope_dim / 2] divide the frequencies ("rope_freqs.weight", Llama-3 scaling). Empty:
  // none do.
  RopeTable(const ModelConfig& config, absl::Span<const float> divisors);

  // Fills `cosines` and `sines` [positions, rope_dim / 2]. The angle is position / linear scale *
  // frequency, computed in double and rounded once.
  void Fill(absl::Span<const int> positions, std::vector<float>& cosines,
            std::vector<float>& sines) const;

 private:
  double linear_scale_;
  std::vector<double> frequencies_;  // [rope_dim / 2]: base^(-2i / rope_dim) / divisor
};

}  // namespace baton
