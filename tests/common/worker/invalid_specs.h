// A SequenceSpec that a worker takes, and what is wrong with one that it does not.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "baton/internal/v1/common.pb.h"

namespace baton {

inline constexpr uint32_t kNoId = 1'000'000;  // outside every vocabulary of the tests

inline internal::v1::SequenceSpec GoodSpec() {
  internal::v1::SequenceSpec spec;
  spec.mutable_key()->set_request_id_high(1);
  spec.mutable_key()->set_attempt(1);
  for (const uint32_t id : {5, 6, 7, 8}) spec.add_token_ids(id);
  spec.set_prompt_length(3);
  spec.mutable_sampling()->set_max_tokens(10);
  spec.mutable_sampling()->set_seed(42);
  spec.set_capability(std::string(16, 'c'));
  return spec;
}

struct InvalidSpec {
  std::string field;  // as the refusal names it
  std::function<void(internal::v1::SequenceSpec&)> spoil;
};

// Every way in which one field of GoodSpec can be wrong, for a context of `context` tokens.
inline std::vector<InvalidSpec> InvalidSpecs(int context) {
  using Spec = internal::v1::SequenceSpec;
  using Sampling = v1::SamplingParams;
  std::vector<InvalidSpec> specs = {
      {"sequence.key.attempt", [](Spec& s) { s.mutable_key()->set_attempt(0); }},
      {"sequence.key.choice", [](Spec& s) { s.mutable_key()->set_choice(UINT32_MAX); }},
      {"sequence.key.choice",
       [](Spec& s) {
         s.mutable_key()->set_choice(15);
         s.mutable_sampling()->set_n(2);
       }},
      {"sequence.capability", [](Spec& s) { s.set_capability("short"); }},
      {"sequence.speculative",
       [](Spec& s) { s.set_speculative(static_cast<v1::Speculative>(-1)); }},
      {"sequence.cache_salt", [](Spec& s) { s.set_cache_salt(std::string(257, 's')); }},
      {"sequence.token_ids", [](Spec& s) { s.clear_token_ids(); }},
      {"sequence.token_ids", [](Spec& s) { s.add_token_ids(kNoId); }},
      {"sequence.token_ids", [](Spec& s) { s.add_token_ids(UINT32_MAX); }},
      {"sequence.token_ids",
       [context](Spec& s) {
         for (int i = 0; i < context; ++i) s.add_token_ids(1);
       }},
      {"sequence.token_ids", [](Spec& s) { s.mutable_sampling()->set_max_tokens(1); }},
      {"sequence.prompt_length", [](Spec& s) { s.set_prompt_length(0); }},
      {"sequence.prompt_length", [](Spec& s) { s.set_prompt_length(5); }},
      {"sequence.sampling.max_tokens",
       [context](Spec& s) {
         s.mutable_sampling()->set_max_tokens(static_cast<uint32_t>(context - 2));
       }},
  };
  const auto sampling = [&specs](const char* field, const std::function<void(Sampling&)>& spoil) {
    specs.push_back({std::string("sequence.sampling.") + field,
                     [spoil](Spec& spec) { spoil(*spec.mutable_sampling()); }});
  };
  sampling("temperature", [](Sampling& p) { p.set_temperature(NAN); });
  sampling("temperature", [](Sampling& p) { p.set_temperature(INFINITY); });
  sampling("temperature", [](Sampling& p) { p.set_temperature(-1); });
  sampling("top_p", [](Sampling& p) { p.set_top_p(0); });
  sampling("top_p", [](Sampling& p) { p.set_top_p(1.5f); });
  sampling("top_k", [](Sampling& p) { p.set_top_k(-2); });
  sampling("min_p", [](Sampling& p) { p.set_min_p(1.5f); });
  sampling("presence_penalty", [](Sampling& p) { p.set_presence_penalty(3); });
  sampling("frequency_penalty", [](Sampling& p) { p.set_frequency_penalty(-3); });
  sampling("repetition_penalty", [](Sampling& p) { p.set_repetition_penalty(0); });
  sampling("max_tokens", [](Sampling& p) { p.clear_max_tokens(); });
  sampling("max_tokens", [](Sampling& p) { p.set_max_tokens(0); });
  sampling("max_tokens", [](Sampling& p) { p.set_max_tokens(UINT32_MAX); });
  sampling("min_tokens", [](Sampling& p) { p.set_min_tokens(11); });
  sampling("n", [](Sampling& p) { p.set_n(0); });
  sampling("n", [](Sampling& p) { p.set_n(17); });
  sampling("seed", [](Sampling& p) { p.clear_seed(); });
  sampling("stop", [](Sampling& p) { p.add_stop(""); });
  sampling("stop_token_ids", [](Sampling& p) { p.add_stop_token_ids(kNoId); });
  sampling("logprobs", [](Sampling& p) { p.set_logprobs(21); });
  sampling("logprobs", [](Sampling& p) { p.set_logprobs(-1); });
  sampling("prompt_logprobs", [](Sampling& p) { p.set_prompt_logprobs(21); });
  sampling("max_tokens", [](Sampling& p) { p.set_max_tokens(0), p.set_prompt_logprobs(1); });
  sampling("logit_bias", [](Sampling& p) { (*p.mutable_logit_bias())[kNoId] = 1; });
  sampling("logit_bias", [](Sampling& p) { (*p.mutable_logit_bias())[1] = NAN; });
  sampling("bad_words", [](Sampling& p) { p.add_bad_words("x"); });
  sampling("truncate_prompt_tokens", [](Sampling& p) { p.set_truncate_prompt_tokens(1); });
  return specs;
}

}  // namespace baton
