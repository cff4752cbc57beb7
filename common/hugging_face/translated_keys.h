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

// Reads how positions are rotated: rope_parameters, or rope_theta and rope_scaling. REQUIRES: the
// sizes in `keys` are set.
absl::Status ReadRopeFields(const JsonFields& config, TranslatedKeys& keys);

// Writes the sliding window of an architecture that computes one, and which layers have it:
// `default_period`, the layers from one without a window to the next, is what the architecture's
// key means if it is missing; 0: it is not written.
absl::Status ReadWindowFields(const JsonFields& config, uint64_t default_period,
                              TranslatedKeys& keys);

}  // namespace baton
