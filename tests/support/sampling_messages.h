// Messages from the engine's sampling parameters, for tests that call workers as a router does.
#pragma once

#include "baton/v1/generation.pb.h"
#include "common/backend/sampling_params.h"

namespace baton {

inline v1::SamplingParams SamplingToProto(const SamplingParams& params) {
  v1::SamplingParams result;
  result.set_temperature(params.temperature);
  result.set_top_p(params.top_p);
  result.set_top_k(params.top_k);
  result.set_min_p(params.min_p);
  result.set_presence_penalty(params.presence_penalty);
  result.set_frequency_penalty(params.frequency_penalty);
  result.set_repetition_penalty(params.repetition_penalty);
  result.set_max_tokens(static_cast<uint32_t>(params.max_tokens));
  result.set_min_tokens(static_cast<uint32_t>(params.min_tokens));
  result.set_n(1);
  result.set_seed(params.seed);
  for (const int32_t id : params.stop_token_ids) {
    result.add_stop_token_ids(static_cast<uint32_t>(id));
  }
  result.set_ignore_eos(params.ignore_eos);
  if (params.logprobs) result.set_logprobs(*params.logprobs);
  if (params.prompt_logprobs) result.set_prompt_logprobs(*params.prompt_logprobs);
  for (const auto& [id, bias] : params.logit_bias) {
    (*result.mutable_logit_bias())[static_cast<uint32_t>(id)] = bias;
  }
  return result;
}

}  // namespace baton
