// The parts of a model, read from GGUF metadata and checked for consistency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/layout.h"
#include "common/model/architectures.h"
#include "common/model/rope_config.h"

namespace baton {

// What one layer does differently from another.
struct LayerConfig {
  int window = 0;  // keys that a query sees, its own included; 0: all up to its own
  int rope = 0;    // index in ModelConfig::ropes, or kNoRope
};

struct ExpertsConfig {
  int count = 0;         // experts of a layer; 0: the feed-forward is a single one
  int used = 0;          // experts that each row chooses
  int width = 0;         // floats of an expert's gate
  int shared_width = 0;  // floats of the gate of the feed-forward beside them; 0: there is none
};

// A decoder of the kind that common/model/architectures.h describes.
struct ModelConfig {
  std::string architecture;  // the name of its row there
  std::string name{};        // the file's general.name; may be empty
  int layers = 0;
  int width = 0;  // floats of a row of the residual stream
  int feed_forward_width = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab_size = 0;
  int context_length = 0;  // trained positions: the upper bound of max_model_len
  float norm_epsilon = 0;

  NormPlaces norm_places = NormPlaces::kBefore;
  QkNorm qk_norm = QkNorm::kNone;
  GateFunction gate_function = GateFunction::kSilu;
  ExpertsConfig experts{};
  bool sinks = false;
  bool output_bias = false;

  float embedding_scale = 1;  // factor of the embedding
  float residual_scale = 1;   // factor of what a sublayer adds
  float attention_scale = 1;  // factor of query . key
  float logit_scale = 1;      // divisor of the logits
  float logit_soft_cap = 0;   // logits = cap * tanh(logits / cap); 0: they stay
  // After rotation queries are multiplied by 1 + scale * ln(1 + floor(position / length)).
  double temperature_scale = 0;  // 0: they stay
  int temperature_length = 0;    // tokens

  std::vector<RopeConfig> ropes{};
  std::vector<LayerConfig> layer_kinds{};  // [layers]

  // Floats of the gate of the feed-forward that all rows go through; 0: there is none.
  int dense_width() const { return experts.count > 0 ? experts.shared_width : feed_forward_width; }

  // Reads the configuration. INVALID_ARGUMENT or UNIMPLEMENTED names file and key, and what is
  // supported. No sequence will have more than `max_model_len` tokens, 0: than context_length;
  // models with LongRoPE rotate by it.
  static absl::StatusOr<ModelConfig> FromGguf(const GgufFile& file, int max_model_len = 0);
  // SHA-256 over all fields that change the computation: the config_digest of ModelIdentity.
  std::string Digest() const;
  KvLayout MakeKvLayout(int block_size, KvType dtype) const;
};

}  // namespace baton
