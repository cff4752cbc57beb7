// The rotations of queries and keys in a model's layers, read from its metadata.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/model/architectures.h"
#include "common/model/model_keys.h"

namespace baton {

// The tensor that divides the frequencies, one by one.
enum class RopeDivisors {
  kNone,
  kFrequencies,  // "rope_freqs.weight" (Llama 3)
  kShort,        // "rope_factors_short.weight" (LongRoPE)
  kLong,         // "rope_factors_long.weight"
};
const char* RopeDivisorsTensor(RopeDivisors divisors);  // null: none

// With i the index of a pair of dimensions, n = dim:
//   frequency_i = base^(-2i / n) / divisor_i * (keep_i + (1 - keep_i) / yarn_factor)
//   keep_i      = 1 - clamp((i - ramp_low) / max(0.001, ramp_high - ramp_low), 0, 1)
//   angle       = position / linear_scale * frequency_i
// Cosine and sine are multiplied by the magnitude.
struct RopeConfig {
  RopePairs pairs = RopePairs::kInterleaved;
  int dim = 0;  // rotated dimensions of a head, even
  double base = 10000;
  double linear_scale = 1;
  RopeDivisors divisors = RopeDivisors::kNone;
  double yarn_factor = 1;  // 1: frequencies are not scaled (arXiv:2309.00071, "NTK-by-parts")
  double ramp_low = 0;     // in pairs; pairs below keep their frequency
  double ramp_high = 0;    // in pairs; pairs above have it divided by yarn_factor
  double magnitude = 1;
};

// What the file says of rotation: the rope of layers that see all keys, then, if `windows`, that of
// the others where it differs. `max_positions` tokens are computed at most, by which LongRoPE
// chooses its factors. Errors are those of ModelConfig::FromGguf.
absl::StatusOr<std::vector<RopeConfig>> ReadRopes(const ModelKeys& keys,
                                                  const Architecture& architecture, int head_dim,
                                                  bool windows, int max_positions);
// The tokens that the model was trained with before its rotation was scaled.
absl::StatusOr<int> ReadOriginalContext(const ModelKeys& keys);

}  // namespace baton
