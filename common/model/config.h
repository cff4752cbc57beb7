// The architecture of a model, read from GGUF metadata and checked against itself.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"

namespace baton {

// Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, gated SiLU feed-forward.
struct ModelConfig {
  std::string architecture;  // "llama" or "qwen2"
  std::string name;          // general.name
  int layers = 0;
  int width = 0;  // of the residual stream
  int feed_forward_width = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab_size = 0;
  int context_length = 0;  // trained positions: the most max_model_len can be
  float norm_epsilon = 0;

  using RopePairs = baton::RopePairs;
  RopePairs rope_pairs = RopePairs::kInterleaved;
  int rope_dim = 0;  // rotated dimensions of a head, even
  double rope_base = 10000;
  double rope_linear_scale = 1;  // positions are divided by it

  // INVALID_ARGUMENT or UNIMPLEMENTED names file and key, and what is supported.
  static absl::StatusOr<ModelConfig> FromGguf(const GgufFile& file);
  // SHA-256 over all fields that change the computation (design: identity's config_digest).
  std::string Digest() const;
};

}  // namespace baton
