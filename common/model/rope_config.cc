#include "common/model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/exact_math.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int kMostPositions = 1 << 27;

absl::Status ReadDivisors(const ModelKeys& keys, int max_positions, RopeConfig& rope) {
  const auto has = [&](RopeDivisors divisors) {
    return keys.file().FindTensor(RopeDivisorsTensor(divisors)) != nullptr;
  };
  const bool long_rope = has(RopeDivisors::kShort) || has(RopeDivisors::kLong);
  if (has(RopeDivisors::kFrequencies)) {
    if (long_rope) {
      return absl::InvalidArgumentError(
          absl::StrCat(keys.file().path(),
                       ": has both tensor 'rope_freqs.weight' and LongRoPE tensors "
                       "('rope_factors_...'), which exclude each other"));
    }
    rope.divisors = RopeDivisors::kFrequencies;
  } else if (long_rope) {
    BATON_ASSIGN_OR_RETURN(const int original, ReadOriginalContext(keys));
    rope.divisors = max_positions > original ? RopeDivisors::kLong : RopeDivisors::kShort;
  }
  return absl::OkStatus();
}

absl::Status ReadYarn(const ModelKeys& keys, bool rounded, RopeConfig& rope) {
  BATON_ASSIGN_OR_RETURN(rope.yarn_factor, keys.Number("rope.scaling.factor"));
  if (rope.yarn_factor < 1) return keys.Invalid("rope.scaling.factor", "must be at least 1");
  if (rope.base <= 1) return keys.Invalid("rope.freq_base", "must be above 1 for yarn");
  BATON_ASSIGN_OR_RETURN(const int original, ReadOriginalContext(keys));
  BATON_ASSIGN_OR_RETURN(const double fast, keys.NumberOr("rope.scaling.yarn_beta_fast", 32));
  BATON_ASSIGN_OR_RETURN(const double slow, keys.NumberOr("rope.scaling.yarn_beta_slow", 1));
  // The pair that turns so often within the original context.
  const auto pair_of = [&](double turns) {
    return rope.dim * Log(original / (2 * std::numbers::pi * turns)) / (2 * Log(rope.base));
  };
  const double low = pair_of(fast);
  const double high = pair_of(slow);
  rope.ramp_low = std::max(0.0, rounded ? std::floor(low) : low);
  rope.ramp_high = std::min(rope.dim - 1.0, rounded ? std::ceil(high) : high);
  BATON_ASSIGN_OR_RETURN(const double multiplier,
                         keys.NumberUnlessNone("rope.scaling.yarn_log_multiplier", 0));
  const double logarithm = 0.1 * Log(rope.yarn_factor);
  rope.magnitude = (1 + logarithm) / (1 + multiplier * logarithm);
  return absl::OkStatus();
}

absl::Status ReadScaling(const ModelKeys& keys, bool rounded_yarn, RopeConfig& rope) {
  BATON_ASSIGN_OR_RETURN(const std::string scaling, keys.StringOr("rope.scaling.type", "none"));
  if (scaling == "linear") {
    BATON_ASSIGN_OR_RETURN(rope.linear_scale, keys.Number("rope.scaling.factor"));
  } else if (scaling == "yarn") {
    BATON_RETURN_IF_ERROR(ReadYarn(keys, rounded_yarn, rope));
  } else if (scaling == "longrope") {
    if (rope.divisors != RopeDivisors::kShort && rope.divisors != RopeDivisors::kLong) {
      return keys.Invalid("rope.scaling.type",
                          "is 'longrope', but there are no tensors 'rope_factors_...'");
    }
  } else if (scaling != "none") {
    return keys.Unsupported(
        "rope.scaling.type",
        absl::StrCat("is '", LogSafe(scaling), "'; supported are none, linear, yarn and longrope"));
  } else {
    BATON_ASSIGN_OR_RETURN(rope.linear_scale, keys.NumberOr("rope.scale_linear", 1));
  }
  BATON_ASSIGN_OR_RETURN(const double factor, keys.NumberUnlessNone("rope.scaling.attn_factor", 1));
  rope.magnitude *= factor;
  return absl::OkStatus();
}

}  // namespace

const char* RopeDivisorsTensor(RopeDivisors divisors) {
  switch (divisors) {
    case RopeDivisors::kNone:
      return nullptr;
    case RopeDivisors::kFrequencies:
      return "rope_freqs.weight";
    case RopeDivisors::kShort:
      return "rope_factors_short.weight";
    case RopeDivisors::kLong:
      return "rope_factors_long.weight";
  }
  return nullptr;
}

absl::StatusOr<int> ReadOriginalContext(const ModelKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const int context, keys.Count("context_length", kMostPositions));
  return keys.CountOr("rope.scaling.original_context_length", kMostPositions, context);
}

absl::StatusOr<std::vector<RopeConfig>> ReadRopes(const ModelKeys& keys,
                                                  const Architecture& architecture, int head_dim,
                                                  bool windows, int max_positions) {
  RopeConfig rope{.pairs = architecture.rope_pairs};
  BATON_ASSIGN_OR_RETURN(rope.dim, keys.CountOr("rope.dimension_count", 1 << 16, head_dim));
  if (rope.dim % 2 != 0 || rope.dim > head_dim) {
    return keys.Invalid("rope.dimension_count", "must be even and at most the head dimension");
  }
  BATON_ASSIGN_OR_RETURN(rope.base, keys.NumberOr("rope.freq_base", 10000));
  RopeConfig local = rope;
  if (architecture.local_rope_base > 0) {
    BATON_ASSIGN_OR_RETURN(
        local.base, keys.NumberUnlessNone("rope.freq_base_swa", architecture.local_rope_base));
  }
  BATON_RETURN_IF_ERROR(ReadDivisors(keys, max_positions, rope));
  BATON_RETURN_IF_ERROR(ReadScaling(keys, architecture.rounded_yarn, rope));
  if (rope.base < 1 || local.base < 1 || rope.linear_scale < 1e-3) {
    return keys.Invalid("rope", "base must be at least 1 and scaling.factor at least 0.001");
  }
  std::vector<RopeConfig> ropes = {rope};
  if (windows && architecture.plain_local_rope) ropes.push_back(local);
  return ropes;
}

}  // namespace baton
