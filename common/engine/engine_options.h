// The settings of an engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/backend/tensor.h"
#include "common/model/config.h"
#include "common/speculation/speculation_mode.h"

namespace baton {

struct EngineOptions {
  int max_model_len = 0;  // tokens of prompt and output; 0: the model's context, or what the cache
                          // holds if that is less
  int max_num_seqs = 64;  // sequences in one step
  // Rows of one step, at least kChunkTokens (64). Where decodes take most of them, prefills still
  // get one chunk beyond it.
  int max_num_batched_tokens = 512;
  // Prefill chunks are cut, by the measured speed, so that a step takes no longer than this. No
  // chunk is cut below 64 tokens.
  absl::Duration max_step_duration = absl::Milliseconds(100);
  int block_size = 32;    // tokens of a block
  int num_kv_blocks = 0;  // blocks of the KV cache; at least one
  KvType kv_dtype = KvType::kF16;
  bool enable_prefix_caching = true;  // sequences that begin alike share their blocks
  // Names weights, architecture and numerics: it begins the hash of every cached prefix.
  std::string prefix_identity = {};
  // How long the pages of a broken hand-off are retained for the next attempt at its request.
  absl::Duration resume_timeout = absl::Seconds(30);
  // Between two SequenceAlive of a sequence. A caller that passes on every other one still sends a
  // sign every 10 s.
  absl::Duration sign_interval = absl::Seconds(4);
  int max_waiting = 1024;  // sequences submitted and not admitted; more are RESOURCE_EXHAUSTED
  std::vector<int32_t> end_of_generation_ids = {};  // token ids from the tokenizer
  // Steps that are enqueued before the tokens of the oldest one are known: 0 or 1. Not given: what
  // the backend prefers. It changes when tokens come, never which.
  std::optional<int> steps_ahead = std::nullopt;
  SpeculationMode speculation = SpeculationMode::kAuto;  // whether tokens are guessed
  // CPU time that a form may take on the engine's thread for each output, on average (masks_ahead.h).
  // Masks of forms that take longer are made on another thread; zero: those of all forms.
  absl::Duration form_patience = absl::Milliseconds(3);
};

// INVALID_ARGUMENT names the flag. A layout of the KV cache divides by the size, so it is to be
// checked before one is made.
absl::Status CheckBlockSize(int block_size);

// INVALID_ARGUMENT names the flag whose value is a KV type that the model's heads do not fit.
absl::Status CheckHeadDim(const char* flag, KvType type, int head_dim);

// What Engine::Create refuses, but for num_kv_blocks, which may be known only once the weights are
// loaded. Errors name the flag.
absl::Status CheckEngineOptions(const EngineOptions& options, const ModelConfig& config);

}  // namespace baton
