// The keys of a model while they are collected from config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/gguf/gguf_metadata.h"
#include "common/hugging_face/json_text.h"

namespace baton {

// Limits on what config.json may say, above any model that is known.
inline constexpr uint64_t kMaxLayers = 4096;
inline constexpr uint64_t kMaxHeads = 4096;
inline constexpr uint64_t kMaxHeadRows = 1 << 16;
inline constexpr uint64_t kMaxWidth = 1 << 20;
inline constexpr uint64_t kMaxPositions = 1 << 27;

struct TranslatedKeys {
  // Adds "PREFIX.NAME".
  void Count(const std::string& name, uint64_t value) {
    metadata.Uint32(prefix + "." + name, static_cast<uint32_t>(value));
  }
  void Number(const std::string& name, double value) {
    metadata.Float32(prefix + "." + name, static_cast<float>(value));
  }
  void Text(const std::string& name, const std::string& value) {
    metadata.Text(prefix + "." + name, value);
  }

  std::string prefix;  // the architecture's name
  GgufMetadata metadata;
  uint64_t layers = 0;
  uint64_t width = 0;
  uint64_t heads = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t rope_dim = 0;  // rotated values of a head, even
  uint64_t context_length = 0;
  bool rounded_yarn = true;               // as the architecture computes it
  std::vector<float> rope_freqs;          // [rope_dim / 2] or empty: divisors of the frequencies
  std::vector<float> rope_factors_long;   // likewise, of LongRoPE
  std::vector<float> rope_factors_short;  // likewise
};

// What a model type's rope fields mean where config.json leaves them out, and which it may have.
struct RopeRules {
  double base = 10000;  // rope_theta
  // rope_parameters has an object for each type of layer: full_attention, sliding_attention.
  bool by_layer_type = false;
  double local_base = 10000;  // rope_theta of sliding_attention
  // The older field for `local_base`. Null: both types of layer must have one base.
  const char* local_base_field = nullptr;
  bool partial = false;    // partial_rotary_factor may be below 1
  bool long_only = false;  // LongRoPE is the only scaling, whatever its name: longrope, su, yarn
};

// Reads how positions are rotated, as transformers 5 does. Without layer types rope_scaling, if it
// has any field, replaces rope_parameters; with them its fields go over those of full_attention.
// rope_theta, partial_rotary_factor and `local_base_field` at the top count if the object has
// none, and original_max_position_embeddings at the top goes over the object's. A field of the
// objects that is not known is refused by name. REQUIRES: the sizes in `keys` but rope_dim are set.
absl::Status ReadRopeFields(const JsonFileFields& config, const RopeRules& rules,
                            TranslatedKeys& keys);

// Writes the sliding window of an architecture that computes one, and which layers have it:
// `default_period`, the layers from one without a window to the next, is what the architecture's
// key means if it is missing; 0: it is not written.
absl::Status ReadWindowFields(const JsonFileFields& config, uint64_t default_period,
                              TranslatedKeys& keys);

}  // namespace baton
