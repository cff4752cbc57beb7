// The sampling parameters of a request, with every default filled in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace baton {

// The values were validated where the request came in; units and ranges as in
// baton.v1.SamplingParams.
struct SamplingParams {
  float temperature = 1;  // below 1e-5: greedy
  float top_p = 1;
  int top_k = 0;  // 0: off
  float min_p = 0;
  float presence_penalty = 0;    // counts output tokens
  float frequency_penalty = 0;   // counts output tokens
  float repetition_penalty = 1;  // counts prompt and output tokens
  int max_tokens = 16;           // output tokens, counted from prompt_length
  int min_tokens = 0;            // no EOS and no stop token before this many output tokens
  uint64_t seed = 0;
  std::vector<int32_t> stop_token_ids = {};  // ascending; EOS ids are the model's own
  bool ignore_eos = false;
  std::optional<int> logprobs = std::nullopt;  // 0: the sampled token's; N: also the top N tokens'
  // As `logprobs`, of each prompt token behind those before it; not given: none.
  std::optional<int> prompt_logprobs = std::nullopt;
  std::map<int32_t, float> logit_bias = {};  // token id -> bias; ordered: added in ascending id
};

// The log probabilities of one token, as they go to the client.
struct TokenLogprobs {
  float logprob = 0;  // log softmax of the raw logits
  struct Top {
    int32_t token_id = 0;
    float logprob = 0;
  };
  std::vector<Top> top = {};  // descending; ties by ascending id
};

enum class FinishReason { kNone, kStop, kLength };

struct OutputToken {
  int output_index = 0;  // 0 is the first token after the prompt
  int32_t token_id = 0;
  std::optional<TokenLogprobs> logprobs = std::nullopt;  // only when asked for
  FinishReason finish_reason = FinishReason::kNone;      // not kNone: the sequence ends here
};

}  // namespace baton
