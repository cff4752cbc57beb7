#include "common/engine/request_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/max_choices.h"

namespace baton {

bool IsWellFormed(const SequenceRequest& request, const EngineLimits& limits) {
  const SamplingParams& sampling = request.sampling;
  const auto tokens = static_cast<int64_t>(request.token_ids.size());
  if (tokens < 1 || tokens >= limits.max_model_len) return false;
  if (request.prompt_length < 1 || request.prompt_length > tokens) return false;
  if (tokens - request.prompt_length >= sampling.max_tokens) return false;
  if (request.choice < 0 || request.choices < 1) return false;
  if (request.choice + int64_t{request.choices} > int64_t{kMaxChoices}) return false;
  if (request.grammar && request.grammar->vocab_size() != limits.vocab_size) return false;
  const auto in_vocabulary = [&](int32_t id) { return id >= 0 && id < limits.vocab_size; };
  const std::vector<int32_t>& stops = sampling.stop_token_ids;
  return std::all_of(request.token_ids.begin(), request.token_ids.end(), in_vocabulary) &&
         std::all_of(stops.begin(), stops.end(), in_vocabulary) &&
         std::is_sorted(stops.begin(), stops.end()) &&
         std::all_of(sampling.logit_bias.begin(), sampling.logit_bias.end(),
                     [&](const auto& entry) { return in_vocabulary(entry.first); });
}

std::optional<RequestMisfit> FindMisfit(const SequenceRequest& request,
                                        const EngineLimits& limits) {
  const auto tokens = static_cast<int64_t>(request.token_ids.size());
  // The last token's K and V are never computed, so they need no room.
  const int64_t longest = std::min(int64_t{request.prompt_length} + request.sampling.max_tokens,
                                   int64_t{limits.max_model_len}) -
                          1;
  const bool prefill_only = request.mode == SequenceRequest::Mode::kPrefillOnly;
  const int64_t stored = prefill_only ? tokens : std::max(longest, tokens);
  const auto blocks_for = [&](int64_t count) {
    return limits.groups.BlocksOf(count, limits.block_size, limits.chunk_tokens);
  };
  const int64_t blocks = blocks_for(stored);
  if (blocks > limits.total_blocks) {
    return RequestMisfit{
        "token_ids", absl::StrCat("with max_tokens they need ", blocks, " KV blocks and there are ",
                                  limits.total_blocks, "; ask for less, or raise --num-kv-blocks")};
  }
  // When the choices part, each has a last block of its own unless the prompt ends with a block.
  if (prefill_only || tokens % limits.block_size == 0) return std::nullopt;
  const int64_t parting =
      blocks_for(tokens) + (int64_t{request.choices} - 1) * limits.groups.count();
  if (parting > limits.total_blocks) {
    return RequestMisfit{
        "sampling.n",
        absl::StrCat(request.choices, " choices need ", parting, " KV blocks and there are ",
                     limits.total_blocks, "; ask for less, or raise --num-kv-blocks")};
  }
  return std::nullopt;
}

}  // namespace baton
