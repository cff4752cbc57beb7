// Counts each token of one sequence, as far as the sequence's penalties need it.
#pragma once

#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"

namespace baton {

// Stays empty when no penalty is set.
class TokenCounts {
 public:
  static bool AskedFor(const SamplingParams& sampling) {
    return sampling.presence_penalty != 0 || sampling.frequency_penalty != 0 ||
           sampling.repetition_penalty != 1;
  }

  // `token_ids` [prompt_length of the prompt, then the output so far].
  TokenCounts(const SamplingParams& sampling, absl::Span<const int32_t> token_ids,
              int prompt_length)
      : output_asked_(sampling.presence_penalty != 0 || sampling.frequency_penalty != 0),
        prompt_asked_(sampling.repetition_penalty != 1) {
    const auto prompt_tokens = static_cast<size_t>(prompt_length);
    for (size_t i = 0; i < token_ids.size(); ++i) {
      if (i >= prompt_tokens) {
        AddOutput(token_ids[i]);
      } else if (prompt_asked_) {
        output_counts_.try_emplace(token_ids[i], 0);
      }
    }
  }

  void AddOutput(int32_t token_id) {
    if (output_asked_ || prompt_asked_) ++output_counts_[token_id];
  }

  // Token id -> occurrences in the output; 0 for a token that is in the prompt only.
  const absl::btree_map<int32_t, int>& output_counts() const { return output_counts_; }

 private:
  bool output_asked_;
  bool prompt_asked_;
  absl::btree_map<int32_t, int> output_counts_;
};

}  // namespace baton
