// The validation of public requests, which names every field that is out of range or not supported.
// All functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "baton/v1/generation.pb.h"
#include "common/rpc/status.h"

namespace baton {

struct RequestLimits {
  uint32_t vocab_size = 0;            // token ids must be below it; 0: ids are not checked
  uint32_t max_model_len = 0;         // most tokens of prompt and output together; 0: not checked
  bool may_generate_nothing = false;  // whether max_tokens may be 0
};

// Returns all violations in `params`; empty if there are none. Fields are named PATH.FIELD, such as
// "sampling_params.top_p". NaN violates every range.
std::vector<FieldViolation> SamplingViolations(const v1::SamplingParams& params,
                                               const RequestLimits& limits,
                                               absl::string_view path = "sampling_params");

// Checks what can be checked before the prompt is tokenised. An error has all violations that
// InvalidFields takes.
absl::Status ValidateGenerateRequest(const v1::GenerateRequest& request,
                                     const RequestLimits& limits);

absl::Status ValidateTokenizeRequest(const v1::TokenizeRequest& request);
absl::Status ValidateDetokenizeRequest(const v1::DetokenizeRequest& request,
                                       const RequestLimits& limits);

// What is wrong with the field `speculative`; none if the API has its value.
std::optional<std::string> SpeculativeFault(v1::Speculative speculative);

// What is wrong with a max_tokens that does not fit into the context beside the prompt; none if it
// fits or is not set. REQUIRES: prompt_tokens <= max_model_len.
std::optional<std::string> MaxTokensFault(uint32_t prompt_tokens, const v1::SamplingParams& params,
                                          uint32_t max_model_len);

// What is wrong with prompt_logprobs for a prompt of so many tokens, of which at most `most` log
// probabilities are told; none if it fits or is not set.
std::optional<std::string> PromptLogprobsFault(uint64_t prompt_tokens,
                                               const v1::SamplingParams& params, uint64_t most);

// Checks the lengths once the number of prompt tokens is known. INVALID_ARGUMENT with reason
// CONTEXT_LENGTH_EXCEEDED if the prompt, or prompt and max_tokens together, exceed max_model_len;
// INVALID_ARGUMENT for the field min_tokens if it exceeds what can be generated. REQUIRES:
// max_model_len > 0.
absl::Status CheckContextLength(uint32_t prompt_tokens, const v1::SamplingParams& params,
                                const RequestLimits& limits);

// Sets every unset field of `params` to the default of baton.v1.SamplingParams, and an unset seed
// to `seed`. REQUIRES: `params` are valid by the functions above.
void FillSamplingDefaults(v1::SamplingParams& params, uint32_t prompt_tokens,
                          uint32_t max_model_len, uint64_t seed);

}  // namespace baton
