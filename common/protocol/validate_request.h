// Public requests at the door: every field that is out of range or not supported is named. Needs no
// engine.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "baton/v1/generation.pb.h"
#include "common/rpc/status.h"

namespace baton {

struct RequestLimits {
  uint32_t vocab_size = 0;     // 0: ids are not checked
  uint32_t max_model_len = 0;  // tokens of prompt and output; 0: not checked
};

// Fields named "sampling_params.top_p" and so on (`path` is the part before the dot); empty when
// all is well. Comparisons refuse NaN.
std::vector<FieldViolation> SamplingViolations(const v1::SamplingParams& params,
                                               const RequestLimits& limits,
                                               absl::string_view path = "sampling_params");

// Everything that can be said before the prompt is tokenised: INVALID_ARGUMENT with all violations
// at once.
absl::Status ValidateGenerateRequest(const v1::GenerateRequest& request,
                                     const RequestLimits& limits);

absl::Status ValidateTokenizeRequest(const v1::TokenizeRequest& request);
absl::Status ValidateDetokenizeRequest(const v1::DetokenizeRequest& request,
                                       const RequestLimits& limits);

// With the number of prompt tokens known: INVALID_ARGUMENT with reason CONTEXT_LENGTH_EXCEEDED
// where prompt or prompt + max_tokens do not fit, or field min_tokens above what can be generated.
// REQUIRES: max_model_len > 0.
absl::Status CheckContextLength(uint32_t prompt_tokens, const v1::SamplingParams& params,
                                const RequestLimits& limits);

// Every default of baton.v1.SamplingParams written out; `seed` where the client gave none. What is
// already set stays. REQUIRES: valid by the functions above.
void FillSamplingDefaults(v1::SamplingParams& params, uint32_t prompt_tokens,
                          uint32_t max_model_len, uint64_t seed);

}  // namespace baton
