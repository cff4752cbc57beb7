#include "common/hugging_face/translated_keys.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/backend/exact_math.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// Llama 3's scaling: the frequency base^(-2i/n) is divided by 1 where its wavelength is short, by
// the factor where it is long, and between by something between. Returns the divisors.
absl::Status ReadLlama3(const JsonFields& rope, double base, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
  BATON_ASSIGN_OR_RETURN(const double low, rope.Number("low_freq_factor"));
  BATON_ASSIGN_OR_RETURN(const double high, rope.Number("high_freq_factor"));
  BATON_ASSIGN_OR_RETURN(const uint64_t original,
                         rope.Count("original_max_position_embeddings", 1, kMaxPositions));
  if (factor < 1 || low <= 0 || high <= low) {
    return rope.Invalid("factor", "is below 1, or low_freq_factor not below high_freq_factor");
  }
  const auto n = static_cast<double>(keys.rope_dim);
  for (uint64_t i = 0; i < keys.rope_dim / 2; ++i) {
    const double wavelength = kTwoPi * Pow(base, 2 * static_cast<double>(i) / n);
    const double turns = static_cast<double>(original) / wavelength;
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    keys.rope_freqs.push_back(static_cast<float>(1 / (smooth + (1 - smooth) / factor)));
  }
  return absl::OkStatus();
}

double Magnitude(double factor, double scale) { return 1 + 0.1 * scale * Log(factor); }

absl::Status ReadYarn(const JsonFields& config, const JsonFields& rope, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
  if (factor < 1) return rope.Invalid("factor", "is below 1");
  BATON_ASSIGN_OR_RETURN(const uint64_t original,
                         rope.CountOr("original_max_position_embeddings", 1, kMaxPositions, 0));
  keys.Text("rope.scaling.type", "yarn");
  keys.Number("rope.scaling.factor", factor);
  keys.Count("rope.scaling.original_context_length", original > 0 ? original : keys.context_length);
  for (const auto& [theirs, ours] : {std::pair("beta_fast", "rope.scaling.yarn_beta_fast"),
                                     std::pair("beta_slow", "rope.scaling.yarn_beta_slow")}) {
    if (!rope.Has(theirs)) continue;
    BATON_ASSIGN_OR_RETURN(const double beta, rope.Number(theirs));
    keys.Number(ours, beta);
  }
  BATON_ASSIGN_OR_RETURN(const bool rounded, rope.BoolOr("truncate", true));
  if (rounded != keys.rounded_yarn) {
    return rope.Unsupported(
        "truncate", rounded ? "is true; supported here is false" : "is false; supported is true");
  }
  BATON_ASSIGN_OR_RETURN(const double scale, rope.NumberOr("mscale", 0));
  BATON_ASSIGN_OR_RETURN(const double scale_all, rope.NumberOr("mscale_all_dim", 0));
  double expected = Magnitude(factor, 1);  // what the keys mean without attn_factor
  double magnitude = expected;
  if (scale != 0 && scale_all != 0) {
    keys.Number("rope.scaling.yarn_log_multiplier", scale_all);
    expected = Magnitude(factor, 1) / Magnitude(factor, scale_all);
    magnitude = Magnitude(factor, scale) / Magnitude(factor, scale_all);
  }
  BATON_ASSIGN_OR_RETURN(magnitude, rope.NumberOr("attention_factor", magnitude));
  if (!(magnitude > 0)) return rope.Invalid("attention_factor", "is not above 0");
  // What was computed here and there in other ways may differ in the last places.
  if (std::fabs(magnitude / expected - 1) > 1e-6) {
    keys.Number("rope.scaling.attn_factor", magnitude / expected);
  }
  if (rope.Has("llama_4_scaling_beta")) {
    BATON_ASSIGN_OR_RETURN(const double beta, rope.Number("llama_4_scaling_beta"));
    if (keys.prefix != "mistral3") {
      return config.Unsupported("llama_4_scaling_beta", "is supported for ministral3 only");
    }
    keys.Number("attention.temperature_scale", beta);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Factors(const JsonFields& rope, const char* field,
                                           const TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> numbers, rope.Numbers(field));
  std::vector<float> factors(numbers.begin(), numbers.end());
  const bool good = std::all_of(factors.begin(), factors.end(), [](float f) { return f > 0; });
  if (factors.size() != keys.rope_dim / 2 || !good) {
    return rope.Invalid(field,
                        absl::StrCat("is no array of ", keys.rope_dim / 2, " numbers above 0"));
  }
  return factors;
}

absl::Status ReadLongRope(const JsonFields& config, const JsonFields& rope, TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(keys.rope_factors_long, Factors(rope, "long_factor", keys));
  BATON_ASSIGN_OR_RETURN(keys.rope_factors_short, Factors(rope, "short_factor", keys));
  const JsonFields& place = rope.Has("original_max_position_embeddings") ? rope : config;
  BATON_ASSIGN_OR_RETURN(const uint64_t original,
                         place.Count("original_max_position_embeddings", 2, kMaxPositions));
  const double factor = static_cast<double>(keys.context_length) / static_cast<double>(original);
  const double natural =
      factor <= 1 ? 1 : std::sqrt(1 + Log(factor) / Log(static_cast<double>(original)));
  BATON_ASSIGN_OR_RETURN(const double magnitude, rope.NumberOr("attention_factor", natural));
  keys.Count("rope.scaling.original_context_length", original);
  keys.Number("rope.scaling.attn_factor", magnitude);
  return absl::OkStatus();
}

absl::Status ReadScaling(const JsonFields& config, const JsonFields& rope, double base,
                         TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const std::string older, rope.TextOr("type", "default"));
  BATON_ASSIGN_OR_RETURN(const std::string type, rope.TextOr("rope_type", older));
  if (type == "default") return absl::OkStatus();
  if (type == "linear") {
    BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
    keys.Text("rope.scaling.type", "linear");
    keys.Number("rope.scaling.factor", factor);
    return absl::OkStatus();
  }
  if (type == "llama3") return ReadLlama3(rope, base, keys);
  if (type == "yarn") return ReadYarn(config, rope, keys);
  if (type == "longrope" || type == "su") return ReadLongRope(config, rope, keys);
  return rope.Unsupported("rope_type", absl::StrCat("is '", type,
                                                    "'; supported are default, linear, llama3, "
                                                    "yarn and longrope"));
}

}  // namespace

absl::Status ReadRopeFields(const JsonFields& config, TranslatedKeys& keys) {
  const bool newer = config.Has("rope_parameters");
  const char* field = newer ? "rope_parameters" : "rope_scaling";
  double base = 10000;
  if (!newer) {
    BATON_ASSIGN_OR_RETURN(base, config.NumberOr("rope_theta", base));
  }
  if (!config.Has(field)) {
    keys.Number("rope.freq_base", base);
    return absl::OkStatus();
  }
  BATON_ASSIGN_OR_RETURN(JsonFields rope, config.Object(field));
  if (rope.Has("full_attention")) {  // layers with a window have parameters of their own
    if (rope.Has("sliding_attention")) {
      BATON_ASSIGN_OR_RETURN(const JsonFields local, rope.Object("sliding_attention"));
      BATON_ASSIGN_OR_RETURN(const double local_base, local.Number("rope_theta"));
      BATON_ASSIGN_OR_RETURN(const std::string type, local.TextOr("rope_type", "default"));
      if (type != "default") {
        return local.Unsupported("rope_type", "is not 'default', which alone is supported there");
      }
      keys.Number("rope.freq_base_swa", local_base);
    }
    BATON_ASSIGN_OR_RETURN(rope, rope.Object("full_attention"));
  }
  BATON_ASSIGN_OR_RETURN(base, rope.NumberOr("rope_theta", base));
  if (base < 1) return rope.Invalid("rope_theta", "is below 1");
  keys.Number("rope.freq_base", base);
  return ReadScaling(config, rope, base, keys);
}

absl::Status ReadWindowFields(const JsonFields& config, uint64_t default_period,
                              TranslatedKeys& keys) {
  if (!config.Has("sliding_window")) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const uint64_t window, config.Count("sliding_window", 1, kMaxPositions));
  keys.Count("attention.sliding_window", window);
  if (default_period == 0) return absl::OkStatus();
  std::vector<bool> local(keys.layers);
  if (config.Has("layer_types")) {
    BATON_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.Texts("layer_types"));
    if (types.size() != keys.layers) {
      return config.Invalid("layer_types", "has not one type for each of num_hidden_layers");
    }
    for (size_t layer = 0; layer < types.size(); ++layer) {
      if (types[layer] != "sliding_attention" && types[layer] != "full_attention") {
        return config.Unsupported("layer_types",
                                  "has a type that is neither sliding_attention nor "
                                  "full_attention");
      }
      local[layer] = types[layer] == "sliding_attention";
    }
  } else {
    BATON_ASSIGN_OR_RETURN(const uint64_t period,
                           config.CountOr("sliding_window_pattern", 1, kMaxLayers, default_period));
    for (size_t layer = 0; layer < local.size(); ++layer) local[layer] = (layer + 1) % period != 0;
  }
  keys.metadata.Bools(keys.prefix + ".attention.sliding_window_pattern", local);
  return absl::OkStatus();
}

}  // namespace baton
