// The CPU's sampler: samples the next token from a row of logits.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/sampling_params.h"
#include "common/backend/step_sampler.h"
#include "common/backend/token_counts.h"

namespace baton {

// Everything beside the logits that a sampled token depends on. Other sequences, time and earlier
// draws are not among it.
struct SamplingContext {
  const SamplingParams& sampling;
  const TokenCounts& counts;
  int choice = 0;                  // index among the n outputs of the request
  int output_index = 0;            // 0 is the first token after the prompt
  const uint32_t* mask = nullptr;  // see SamplingRow
};

// The lowest id of the largest logit; any id if one is NaN. REQUIRES: not empty.
int32_t ArgMax(absl::Span<const float> logits);

// The order of the steps (vLLM's):
//   1. the mask: a masked token stays masked, whatever the steps after this one add
//   2. logit_bias
//   3. end and stop tokens are masked before min_tokens; stop tokens alone if there is a mask
//   4. repetition, frequency and presence penalty
//   5. greedy: the likeliest token; otherwise temperature, min_p, top_k, top_p and one draw
// min_p and top_p see the probabilities that the steps before them left. Ties go to the lower id
// everywhere. Probabilities are 64-bit fixed point, so their sums do not depend on the order of
// summation; the draw walks the remaining tokens in ascending id. Logprobs are those of the raw
// logits, before all steps.
//
// Thread rule: one thread; it keeps scratch memory of one row.
class Sampler {
 public:
  // `end_of_generation_ids` ascend.
  Sampler(int vocab_size, std::vector<int32_t> end_of_generation_ids);

  // Samples from `logits` [vocab_size]. Returns LogitNotFinite or AllMasked if there is no
  // token. The caller sets the result's finish_reason.
  absl::StatusOr<OutputToken> Choose(absl::Span<const float> logits,
                                     const SamplingContext& context);

  // The log probabilities of a token that is known, from `logits` [vocab_size]: the same that
  // Choose gives. PromptLogitNotFinite if a logit is no number. REQUIRES: the token is in the
  // vocabulary.
  absl::StatusOr<TokenLogprobs> Score(absl::Span<const float> logits, const ScoredToken& token);

 private:
  struct Candidate {
    int64_t weight;  // probability relative to the likeliest token's, fixed point
    float logit;
    int32_t token_id;
  };

  void Adjust(const SamplingContext& context);
  int32_t Draw(const SamplingContext& context, float max_logit);
  void KeepCandidates(const SamplingParams& sampling);
  void KeepTopK(int top_k);
  void KeepTopP(float top_p);
  TokenLogprobs Logprobs(absl::Span<const float> logits, int32_t token_id, int top_count);

  const int vocab_size_;
  const std::vector<int32_t> end_of_generation_ids_;
  std::vector<float> adjusted_;        // [vocab_size]
  std::vector<int64_t> weights_;       // [vocab_size]
  std::vector<Candidate> candidates_;  // at most vocab_size
};

}  // namespace baton
