// Decides whether a token is a sequence's last one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/backend/sampling_params.h"

namespace baton {

// Why the sequence ends with `token`; kNone if it goes on. A stop token is reported before a length
// limit. `by_grammar`: a grammar alone says where its text may end, so that neither min_tokens nor
// ignore_eos keeps it going behind an end. `total_tokens` counts the prompt and all outputs up to
// `token`. REQUIRES: `end_of_generation_ids` and sampling.stop_token_ids ascend.
inline FinishReason FinishReasonOf(const OutputToken& token, const SamplingParams& sampling,
                                   const std::vector<int32_t>& end_of_generation_ids,
                                   bool by_grammar, int total_tokens, int max_model_len) {
  const int output_count = token.output_index + 1;
  const auto contains = [&](const std::vector<int32_t>& ids) {
    return std::binary_search(ids.begin(), ids.end(), token.token_id);
  };
  const bool may_stop = output_count > sampling.min_tokens;
  // tests/planted_bugs: grammar_end_ignored
  const bool may_end = by_grammar || (may_stop && !sampling.ignore_eos);
  if ((may_stop && contains(sampling.stop_token_ids)) ||
      (may_end && contains(end_of_generation_ids))) {
    return FinishReason::kStop;
  }
  if (output_count >= sampling.max_tokens || total_tokens >= max_model_len) {
    return FinishReason::kLength;
  }
  return FinishReason::kNone;
}

}  // namespace baton
