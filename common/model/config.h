// The architecture of a model, read from GGUF metadata and checked for consistency.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/gguf/gguf_file.h"
#include "common/kv/layout.h"

namespace baton {

// A Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, gated SiLU
// feed-forward.
struct ModelConfig {
  std::string architecture;  // "llama" or "qwen2"
  std::string name;          // the file's general.name; may be empty
  int layers = 0;
  int width = 0;  // floats of a row of the residual stream
  int feed_forward_width = 0;
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int vocab_size = 0;
  int context_length = 0;  // trained positions: the upper bound of max_model_len
  float norm_epsilon = 0;

  using RopePairs = baton::RopePairs;
  RopePairs rope_pairs = RopePairs::kInterleaved;
  int rope_dim = 0;  // rotated dimensions of a head, even
  double rope_base = 10000;
  double rope_linear_scale = 1;  // divisor of the positions

  // Reads the configuration. INVALID_ARGUMENT or UNIMPLEMENTED names file and key, and what is
  // supported.
  static absl::StatusOr<ModelConfig> FromGguf(const GgufFile& file);
  // SHA-256 over all fields that change the computation: the config_digest of ModelIdentity.
  std::string Digest() const;
  KvLayout MakeKvLayout(int block_size, KvType dtype) const;
};

}  // namespace baton
