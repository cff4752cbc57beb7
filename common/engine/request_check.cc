#include "common/engine/request_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/base/max_choices.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int kMaxLogprobs = 20;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckRange(float value, float low, float high, absl::string_view name) {
  if (value >= low && value <= high) return absl::OkStatus();  // false for NaN
  return Invalid("sampling_params.", name, ": must be in [", low, ", ", high, "], not ", value);
}

absl::Status CheckTokenIds(absl::Span<const int32_t> token_ids, int vocab_size,
                           absl::string_view name) {
  for (int32_t id : token_ids) {
    if (id < 0 || id >= vocab_size) {
      return Invalid(name, ": token id ", id, " is outside the vocabulary of ", vocab_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSampling(const SamplingParams& sampling, int vocab_size) {
  constexpr float kMost = 3e38f;
  constexpr float kLeastPositive = 1e-38f;
  BATON_RETURN_IF_ERROR(CheckRange(sampling.temperature, 0, kMost, "temperature"));
  BATON_RETURN_IF_ERROR(CheckRange(sampling.top_p, kLeastPositive, 1, "top_p"));
  BATON_RETURN_IF_ERROR(CheckRange(sampling.min_p, 0, 1, "min_p"));
  BATON_RETURN_IF_ERROR(CheckRange(sampling.presence_penalty, -2, 2, "presence_penalty"));
  BATON_RETURN_IF_ERROR(CheckRange(sampling.frequency_penalty, -2, 2, "frequency_penalty"));
  BATON_RETURN_IF_ERROR(
      CheckRange(sampling.repetition_penalty, kLeastPositive, kMost, "repetition_penalty"));
  if (sampling.top_k < 0) return Invalid("sampling_params.top_k: must be 0 (off) or positive");
  if (sampling.max_tokens < 1) return Invalid("sampling_params.max_tokens: must be positive");
  if (sampling.min_tokens < 0 || sampling.min_tokens > sampling.max_tokens) {
    return Invalid("sampling_params.min_tokens: must be in [0, max_tokens]");
  }
  if (sampling.logprobs && (*sampling.logprobs < 0 || *sampling.logprobs > kMaxLogprobs)) {
    return Invalid("sampling_params.logprobs: must be in [0, ", kMaxLogprobs, "]");
  }
  BATON_RETURN_IF_ERROR(
      CheckTokenIds(sampling.stop_token_ids, vocab_size, "sampling_params.stop_token_ids"));
  if (!std::is_sorted(sampling.stop_token_ids.begin(), sampling.stop_token_ids.end())) {
    return Invalid("sampling_params.stop_token_ids: must ascend");
  }
  for (const auto& [id, bias] : sampling.logit_bias) {
    BATON_RETURN_IF_ERROR(CheckTokenIds({id}, vocab_size, "sampling_params.logit_bias"));
    BATON_RETURN_IF_ERROR(CheckRange(bias, -100, 100, "logit_bias"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const SequenceRequest& request, const EngineLimits& limits) {
  if (request.token_ids.empty()) return Invalid("token_ids: must not be empty");
  if (request.token_ids.size() >= static_cast<size_t>(limits.max_model_len)) {
    return Invalid("token_ids: ", request.token_ids.size(),
                   " tokens leave no room for output: max_model_len is ", limits.max_model_len);
  }
  const auto tokens = static_cast<int>(request.token_ids.size());
  if (request.prompt_length < 1 || request.prompt_length > tokens) {
    return Invalid("prompt_length: must be in [1, ", tokens, "], not ", request.prompt_length);
  }
  if (request.choice < 0 || request.choices < 1 ||
      request.choice + int64_t{request.choices} > int64_t{kMaxChoices}) {
    return Invalid("choices: must be at least one, below ", kMaxChoices, ", not ", request.choices,
                   " from ", request.choice, " on");
  }
  BATON_RETURN_IF_ERROR(CheckTokenIds(request.token_ids, limits.vocab_size, "token_ids"));
  BATON_RETURN_IF_ERROR(CheckSampling(request.sampling, limits.vocab_size));
  if (tokens - request.prompt_length >= request.sampling.max_tokens) {
    return Invalid("sampling_params.max_tokens: all ", request.sampling.max_tokens,
                   " tokens of output are there already");
  }
  // The last token's K and V are never computed, so they need no room.
  const int64_t longest = std::min(int64_t{request.prompt_length} + request.sampling.max_tokens,
                                   int64_t{limits.max_model_len}) -
                          1;
  const int64_t stored = request.mode == SequenceRequest::Mode::kPrefillOnly
                             ? tokens
                             : std::max(longest, int64_t{tokens});
  const auto blocks_for = [&](int64_t count) {
    return (count + limits.block_size - 1) / limits.block_size;
  };
  if (const int64_t blocks = blocks_for(stored); blocks > limits.total_blocks) {
    return Invalid("token_ids: prompt and max_tokens need ", blocks, " KV blocks and there are ",
                   limits.total_blocks, "; ask for less, or raise --num-kv-blocks");
  }
  // When the choices part, each has a last block of its own unless the prompt ends with a block.
  if (request.mode == SequenceRequest::Mode::kPrefillOnly) return absl::OkStatus();
  const int64_t parting = tokens / limits.block_size +
                          int64_t{request.choices} * (tokens % limits.block_size != 0 ? 1 : 0);
  if (parting > limits.total_blocks) {
    return Invalid("sampling_params.n: ", request.choices, " choices need ", parting,
                   " KV blocks and there are ", limits.total_blocks,
                   "; ask for less, or raise --num-kv-blocks");
  }
  return absl::OkStatus();
}

}  // namespace baton
