#include "common/engine/engine_options.h"

#include "absl/strings/str_cat.h"

#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/engine/schedule.h"
#include "common/kv/layout.h"

namespace baton {

absl::Status CheckBlockSize(int block_size) {
  if (block_size >= kKvPageTokens && block_size % kKvPageTokens == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--block-size: must be a multiple of ", kKvPageTokens, ", not ", block_size));
}

absl::Status CheckHeadDim(const char* flag, KvType type, int head_dim) {
  if (TakesHeadDim(type, static_cast<size_t>(head_dim))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", KvTypeName(type), " needs a head dimension that is a multiple of ",
                   kKvGroup, ", and the model's is ", head_dim, "; use int8"));
}

absl::Status CheckEngineOptions(const EngineOptions& options, const ModelConfig& config) {
  const auto refuse = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  BATON_RETURN_IF_ERROR(CheckBlockSize(options.block_size));
  if (options.max_num_seqs < 1) return refuse("--max-num-seqs: must be positive");
  if (options.max_waiting < 1) return refuse("max_waiting: must be positive");
  if (options.max_num_batched_tokens < kChunkTokens) {
    return refuse("--max-num-batched-tokens: must be at least ", kChunkTokens, ", not ",
                  options.max_num_batched_tokens);
  }
  BATON_RETURN_IF_ERROR(CheckHeadDim("--kv-cache-dtype", options.kv_dtype, config.head_dim));
  if (options.max_model_len < 0 || options.max_model_len > config.context_length) {
    return refuse("--max-model-len: must be in [1, ", config.context_length,
                  "], the model's context, not ", options.max_model_len);
  }
  for (int32_t id : options.end_of_generation_ids) {
    if (id < 0 || id >= config.vocab_size) {
      return refuse("tokenizer: end token ", id, " is outside the model's vocabulary of ",
                    config.vocab_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton
