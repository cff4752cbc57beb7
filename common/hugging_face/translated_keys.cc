#include "common/hugging_face/translated_keys.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "common/backend/exact_math.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// How a config's rope fields are read: the whole object, the parameters of the layers without a
// window, and the rules of the model type.
struct RopeSource {
  const JsonFileFields& config;
  const JsonFileFields& rope;
  const RopeRules& rules;
};

// The context that the model was trained with before its positions were scaled.
absl::StatusOr<uint64_t> OriginalContext(const RopeSource& source, const TranslatedKeys& keys) {
  constexpr char kField[] = "original_max_position_embeddings";
  const bool at_top = !source.rules.by_layer_type && source.config.Has(kField);
  const JsonFileFields& place = at_top ? source.config : source.rope;
  return place.CountOr(kField, 2, kMaxPositions, std::max<uint64_t>(keys.context_length, 2));
}

// Llama 3's scaling: the frequency base^(-2i/n) is divided by 1 if its wavelength is short, by
// the factor if it is long, and between by something between. Returns the divisors.
absl::Status ReadLlama3(const RopeSource& source, double base, TranslatedKeys& keys) {
  const JsonFileFields& rope = source.rope;
  BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
  BATON_ASSIGN_OR_RETURN(const double low, rope.Number("low_freq_factor"));
  BATON_ASSIGN_OR_RETURN(const double high, rope.Number("high_freq_factor"));
  BATON_ASSIGN_OR_RETURN(const uint64_t original, OriginalContext(source, keys));
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

absl::Status ReadYarn(const RopeSource& source, TranslatedKeys& keys) {
  const JsonFileFields& rope = source.rope;
  BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
  if (factor < 1) return rope.Invalid("factor", "is below 1");
  BATON_ASSIGN_OR_RETURN(const uint64_t original, OriginalContext(source, keys));
  keys.Text("rope.scaling.type", "yarn");
  keys.Number("rope.scaling.factor", factor);
  keys.Count("rope.scaling.original_context_length", original);
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
  return absl::OkStatus();
}

// Queries that grow with their position, which Ministral 3 computes beside YaRN.
absl::Status ReadQueryScale(const JsonFileFields& rope, const std::string& type,
                            TranslatedKeys& keys) {
  constexpr char kField[] = "llama_4_scaling_beta";
  if (!rope.Has(kField)) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const double beta, rope.Number(kField));
  if (keys.prefix != "mistral3" || type != "yarn") {
    return rope.Unsupported(kField, "is supported for ministral3 with yarn only");
  }
  keys.Number("attention.temperature_scale", beta);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> Factors(const JsonFileFields& rope, const char* field,
                                           const TranslatedKeys& keys) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> numbers, rope.Numbers(field));
  std::vector<float> factors(numbers.begin(), numbers.end());
  const bool good = std::all_of(factors.begin(), factors.end(), [](float f) { return f > 0; });
  if (factors.size() != keys.rope_dim / 2 || !good) {
    return rope.Invalid(field,
                        absl::StrCat("is not an array of ", keys.rope_dim / 2, " numbers above 0"));
  }
  return factors;
}

absl::Status ReadLongRope(const RopeSource& source, TranslatedKeys& keys) {
  const JsonFileFields& rope = source.rope;
  BATON_ASSIGN_OR_RETURN(keys.rope_factors_long, Factors(rope, "long_factor", keys));
  BATON_ASSIGN_OR_RETURN(keys.rope_factors_short, Factors(rope, "short_factor", keys));
  BATON_ASSIGN_OR_RETURN(const uint64_t original, OriginalContext(source, keys));
  const double grown = static_cast<double>(keys.context_length) / static_cast<double>(original);
  BATON_ASSIGN_OR_RETURN(const double factor, rope.NumberOr("factor", grown));
  const double natural =
      factor <= 1 ? 1 : std::sqrt(1 + Log(factor) / Log(static_cast<double>(original)));
  BATON_ASSIGN_OR_RETURN(const double magnitude, rope.NumberOr("attention_factor", natural));
  keys.Count("rope.scaling.original_context_length", original);
  keys.Number("rope.scaling.attn_factor", magnitude);
  return absl::OkStatus();
}

// The type of scaling; "default" means none.
absl::StatusOr<std::string> ScalingType(const JsonFileFields& rope, const RopeRules& rules) {
  BATON_ASSIGN_OR_RETURN(const std::string older, rope.TextOr("type", "default"));
  BATON_ASSIGN_OR_RETURN(const std::string type, rope.TextOr("rope_type", older));
  if (type == "su" || (rules.long_only && type == "yarn")) return "longrope";
  if (rules.long_only && type != "default" && type != "longrope") {
    return rope.Unsupported(
        "rope_type", absl::StrCat("is '", LogSafe(type), "'; supported are default and longrope"));
  }
  return type;
}

absl::Status ReadScaling(const RopeSource& source, double base, TranslatedKeys& keys) {
  const JsonFileFields& rope = source.rope;
  BATON_ASSIGN_OR_RETURN(const std::string type, ScalingType(rope, source.rules));
  BATON_RETURN_IF_ERROR(ReadQueryScale(rope, type, keys));
  if (type == "default") return absl::OkStatus();
  if (type == "linear") {
    BATON_ASSIGN_OR_RETURN(const double factor, rope.Number("factor"));
    keys.Text("rope.scaling.type", "linear");
    keys.Number("rope.scaling.factor", factor);
    return absl::OkStatus();
  }
  if (type == "llama3") return ReadLlama3(source, base, keys);
  if (type == "yarn") return ReadYarn(source, keys);
  if (type == "longrope") return ReadLongRope(source, keys);
  return rope.Unsupported("rope_type", absl::StrCat("is '", LogSafe(type),
                                                    "'; supported are default, linear, llama3, "
                                                    "yarn and longrope"));
}

// Refuses fields that are not among `known`.
absl::Status CheckKnown(const JsonFileFields& object, absl::Span<const char* const> known) {
  for (const std::string& name : object.Names()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return object.Unsupported(LogSafe(name), absl::StrCat("is not supported; supported are ",
                                                          absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

// What transformers reads of a rope object for any model type here, and what it never reads.
constexpr const char* kRopeFields[] = {"rope_theta",
                                       "rope_type",
                                       "type",
                                       "partial_rotary_factor",
                                       "factor",
                                       "original_max_position_embeddings",
                                       "attention_factor",
                                       "beta_fast",
                                       "beta_slow",
                                       "short_factor",
                                       "long_factor",
                                       "low_freq_factor",
                                       "high_freq_factor",
                                       "mscale",
                                       "mscale_all_dim",
                                       "truncate",
                                       "llama_4_scaling_beta",
                                       "max_position_embeddings",
                                       "finetuned"};
constexpr const char* kLayerTypes[] = {"full_attention", "sliding_attention"};

// An object's field, else the one at the top.
absl::StatusOr<double> InEither(const JsonFileFields& rope, const JsonFileFields& config,
                                const char* field, double otherwise) {
  return (rope.Has(field) ? rope : config).NumberOr(field, otherwise);
}

// How much of each head is rotated.
absl::Status ReadShare(const JsonFileFields& config, const JsonFileFields& rope, bool partial,
                       TranslatedKeys& keys) {
  constexpr char kField[] = "partial_rotary_factor";
  BATON_ASSIGN_OR_RETURN(const double share, InEither(rope, config, kField, 1));
  const JsonFileFields& place = rope.Has(kField) ? rope : config;
  if (!partial && share != 1) {
    return place.Unsupported(kField, "is not 1, which alone is supported");
  }
  keys.rope_dim = static_cast<uint64_t>(static_cast<double>(keys.head_dim) * share);
  if (!(share > 0 && share <= 1) || keys.rope_dim == 0 || keys.rope_dim % 2 != 0 ||
      keys.head_dim % 2 != 0) {
    return place.Invalid(kField, "and head_dim do not give an even number of rotated values");
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const JsonFileFields& config, const JsonFileFields& rope,
                      const RopeRules& rules, double* base, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(CheckKnown(rope, kRopeFields));
  BATON_RETURN_IF_ERROR(ReadShare(config, rope, rules.partial, keys));
  BATON_ASSIGN_OR_RETURN(*base, InEither(rope, config, "rope_theta", rules.base));
  if (*base < 1) return rope.Invalid("rope_theta", "is below 1");
  keys.Count("rope.dimension_count", keys.rope_dim);
  keys.Number("rope.freq_base", *base);
  return ReadScaling({.config = config, .rope = rope, .rules = rules}, *base, keys);
}

// The layers with a window: a base, and nothing else.
absl::Status ReadLocalRope(const JsonFileFields& config, const JsonFileFields& rope,
                           const RopeRules& rules, double base, TranslatedKeys& keys) {
  BATON_RETURN_IF_ERROR(CheckKnown(rope, kRopeFields));
  BATON_RETURN_IF_ERROR(ReadShare(config, rope, /*partial=*/false, keys));
  BATON_ASSIGN_OR_RETURN(const std::string type, ScalingType(rope, rules));
  if (type != "default") {
    return rope.Unsupported("rope_type", "is not 'default', which alone is supported there");
  }
  double local_base = rules.local_base;
  if (rules.local_base_field != nullptr) {
    BATON_ASSIGN_OR_RETURN(local_base, config.NumberOr(rules.local_base_field, local_base));
  }
  BATON_ASSIGN_OR_RETURN(local_base, rope.NumberOr("rope_theta", local_base));
  if (local_base < 1) return rope.Invalid("rope_theta", "is below 1");
  if (rules.local_base_field != nullptr) {
    keys.Number("rope.freq_base_swa", local_base);
  } else if (local_base != base) {
    return rope.Unsupported("rope_theta",
                            absl::StrCat("is ", local_base, " in layers with a window and ", base,
                                         " in the others; supported is one for all"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadRopeFields(const JsonFileFields& config, const RopeRules& rules,
                            TranslatedKeys& keys) {
  const nlohmann::json none = nlohmann::json::object();
  BATON_ASSIGN_OR_RETURN(const JsonFileFields older, config.ObjectOr("rope_scaling", none));
  BATON_ASSIGN_OR_RETURN(const JsonFileFields newer, config.ObjectOr("rope_parameters", none));
  const bool scaled = !older.Names().empty();
  double base = 0;
  if (!rules.by_layer_type) return ReadRope(config, scaled ? older : newer, rules, &base, keys);
  BATON_RETURN_IF_ERROR(CheckKnown(newer, kLayerTypes));
  BATON_ASSIGN_OR_RETURN(const JsonFileFields local, newer.ObjectOr("sliding_attention", none));
  BATON_ASSIGN_OR_RETURN(const JsonFileFields full, newer.ObjectOr("full_attention", none));
  const nlohmann::json* own = newer.Find("full_attention");
  nlohmann::json both;
  const JsonFileFields scaling = older.WithDefaults(own == nullptr ? none : *own, both);
  BATON_RETURN_IF_ERROR(ReadRope(config, scaled ? scaling : full, rules, &base, keys));
  return ReadLocalRope(config, local, rules, base, keys);
}

absl::Status ReadWindowFields(const JsonFileFields& config, uint64_t default_period,
                              TranslatedKeys& keys) {
  if (!config.Has("sliding_window")) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const uint64_t window, config.Count("sliding_window", 1, kMaxPositions));
  keys.Count("attention.sliding_window", window);
  if (default_period == 0) return absl::OkStatus();
  std::vector<bool> local(keys.layers);
  if (config.Has("layer_types")) {
    BATON_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.Texts("layer_types"));
    if (types.size() != keys.layers) {
      return config.Invalid("layer_types", "must have one type for each of num_hidden_layers");
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
