// Decides whether a token is a sequence's last one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/backend/sampling_params.h"

namespace baton {

// Why the sequence ends with `token`; kNone if it goes on. A stop token is reported before a length
// limit. `total_tokens` counts the prompt and all outputs up to `token`. REQUIRES:
// `end_of_generation_ids` and sampling.stop_token_ids ascend.
inline FinishReason FinishReasonOf(const OutputToken& token, const SamplingParams& sampling,
                                   const std::vector<int32_t>& end_of_generation_ids,
                                   int total_tokens, int max_model_len) {
  const int output_count = token.output_index + 1;
  const auto contains = [&](const std::vector<int32_t>& ids) {
    return std::binary_search(ids.begin(), ids.end(), token.token_id);
  };
  if (output_count > sampling.min_tokens &&
      (contains(sampling.stop_token_ids) ||
       (!sampling.ignore_eos && contains(end_of_generation_ids)))) {
    return FinishReason::kStop;
  }
  if (output_count >= sampling.max_tokens || total_tokens >= max_model_len) {
    return FinishReason::kLength;
  }
  return FinishReason::kNone;
}

}  // namespace baton
