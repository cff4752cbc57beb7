#include "common/protocol/validate_request.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/protocol/sampling_defaults.h"
#include "common/protocol/validate_chat.h"
#include "common/protocol/violations.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

void CheckNumbers(const v1::SamplingParams& params, Violations& violations) {
  if (params.has_temperature()) {
    const double value = params.temperature();
    violations.Require(value >= 0 && std::isfinite(value), "temperature", "finite and at least 0",
                       value);
  }
  if (params.has_top_p()) {
    violations.Require(params.top_p() > 0 && params.top_p() <= 1, "top_p", "in (0, 1]",
                       params.top_p());
  }
  if (params.has_top_k()) {
    violations.Require(params.top_k() >= -1, "top_k", "-1 or 0 (off), or at least 1",
                       params.top_k());
  }
  if (params.has_min_p()) {
    violations.Require(params.min_p() >= 0 && params.min_p() <= 1, "min_p", "in [0, 1]",
                       params.min_p());
  }
  if (params.has_presence_penalty()) {
    violations.Require(std::abs(params.presence_penalty()) <= 2, "presence_penalty", "in [-2, 2]",
                       params.presence_penalty());
  }
  if (params.has_frequency_penalty()) {
    violations.Require(std::abs(params.frequency_penalty()) <= 2, "frequency_penalty", "in [-2, 2]",
                       params.frequency_penalty());
  }
  if (params.has_repetition_penalty()) {
    const double value = params.repetition_penalty();
    violations.Require(value > 0 && std::isfinite(value), "repetition_penalty",
                       "finite and above 0", value);
  }
  if (params.has_logprobs()) {
    violations.Require(params.logprobs() >= 0 && params.logprobs() <= kMaxLogprobs, "logprobs",
                       absl::StrCat("from 0 to ", kMaxLogprobs), params.logprobs());
  }
  if (params.has_prompt_logprobs()) {
    violations.Require(params.prompt_logprobs() >= 0 && params.prompt_logprobs() <= kMaxLogprobs,
                       "prompt_logprobs", absl::StrCat("from 0 to ", kMaxLogprobs),
                       params.prompt_logprobs());
  }
}

void CheckLengths(const v1::SamplingParams& params, const RequestLimits& limits,
                  Violations& violations) {
  if (params.has_max_tokens() && params.max_tokens() == 0 && !limits.may_generate_nothing) {
    violations.Add("max_tokens", "must be at least 1 without echo or prompt_logprobs, is 0");
  } else if (params.has_max_tokens() && params.min_tokens() > params.max_tokens()) {
    violations.Add("min_tokens", absl::StrCat("must be at most max_tokens (", params.max_tokens(),
                                              "), is ", params.min_tokens()));
  } else if (limits.max_model_len > 0 && params.min_tokens() > limits.max_model_len) {
    violations.Add("min_tokens",
                   absl::StrCat("must be at most the context of ", limits.max_model_len,
                                " tokens, is ", params.min_tokens()));
  }
}

void CheckStops(const v1::SamplingParams& params, const RequestLimits& limits,
                Violations& violations) {
  violations.AtMost(static_cast<size_t>(params.stop_size()), kMaxStopStrings, "stop", "strings");
  for (const std::string& stop : params.stop()) {
    if (stop.empty()) {
      violations.Add("stop", "must not contain an empty string");
      break;
    }
    if (stop.size() > kMaxStopStringBytes) {
      violations.AtMost(stop.size(), kMaxStopStringBytes, "stop", "bytes in one string");
      break;
    }
  }
  violations.AtMost(static_cast<size_t>(params.stop_token_ids_size()), kMaxStopTokenIds,
                    "stop_token_ids", "entries");
  for (const uint32_t id : params.stop_token_ids()) {
    if (limits.vocab_size > 0 && id >= limits.vocab_size) {
      violations.TokenId(id, limits.vocab_size, "stop_token_ids");
      break;
    }
  }
}

void CheckLogitBias(const v1::SamplingParams& params, const RequestLimits& limits,
                    Violations& violations) {
  violations.AtMost(params.logit_bias().size(), kMaxLogitBias, "logit_bias", "entries");
  // A protobuf map has no fixed order, but the error must be the same each time.
  std::vector<std::pair<uint32_t, float>> sorted(params.logit_bias().begin(),
                                                 params.logit_bias().end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [id, bias] : sorted) {
    const bool outside = limits.vocab_size > 0 && id >= limits.vocab_size;
    const bool in_range = std::abs(bias) <= 100;
    if (outside) violations.TokenId(id, limits.vocab_size, "logit_bias");
    violations.Require(in_range, "logit_bias", "in [-100, 100]", bias);
    if (outside || !in_range) break;
  }
}

void CheckInput(const v1::GenerateRequest& request, const RequestLimits& limits,
                Violations& violations) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      if (request.prompt().empty()) violations.Add("prompt", "must not be empty");
      violations.AtMost(request.prompt().size(), kMaxPromptBytes, "prompt", "bytes");
      return;
    case v1::GenerateRequest::kPromptTokenIds:
      if (request.prompt_token_ids().ids().empty()) {
        violations.Add("prompt_token_ids.ids", "must not be empty");
      }
      for (const uint32_t id : request.prompt_token_ids().ids()) {
        if (limits.vocab_size > 0 && id >= limits.vocab_size) {
          violations.TokenId(id, limits.vocab_size, "prompt_token_ids.ids");
          break;
        }
      }
      return;
    case v1::GenerateRequest::kChat:
      CheckChat(request.chat(), violations);
      return;
    case v1::GenerateRequest::INPUT_NOT_SET:
      violations.Add("prompt", "is missing: set one of prompt, prompt_token_ids and chat");
      return;
  }
}

absl::Status ContextLengthExceeded(const std::string& message, uint32_t max_model_len) {
  return WithErrorInfo(InvalidField("sampling_params.max_tokens", message),
                       {.reason = kReasonContextLengthExceeded,
                        .metadata = {{"max_model_len", absl::StrCat(max_model_len)}}});
}

}  // namespace

std::vector<FieldViolation> SamplingViolations(const v1::SamplingParams& params,
                                               const RequestLimits& limits,
                                               absl::string_view path) {
  Violations violations(path);
  CheckNumbers(params, violations);
  CheckLengths(params, limits, violations);
  CheckStops(params, limits, violations);
  CheckLogitBias(params, limits, violations);
  if (params.has_n() && (params.n() == 0 || params.n() > kMaxChoices)) {
    violations.Add("n", absl::StrCat("must be from 1 to ", kMaxChoices, ", is ", params.n()));
  }
  violations.Unsupported(params.bad_words_size() > 0, "bad_words");
  violations.Unsupported(params.has_truncate_prompt_tokens(), "truncate_prompt_tokens");
  return violations.Take();
}

absl::Status ValidateGenerateRequest(const v1::GenerateRequest& request,
                                     const RequestLimits& limits) {
  Violations violations("");
  CheckInput(request, limits, violations);
  violations.AtMost(request.request_id().size(), kMaxNameBytes, "request_id", "bytes");
  violations.AtMost(request.model().size(), kMaxNameBytes, "model", "bytes");
  violations.AtMost(request.cache_salt().size(), kMaxNameBytes, "cache_salt", "bytes");
  violations.AtMost(request.user().size(), kMaxNameBytes, "user", "bytes");
  if (request.has_response_format() && request.has_chat() &&
      IsHeldToCalls(request.chat().tool_choice())) {
    violations.Add("response_format",
                   "cannot be combined with a chat.tool_choice that requires calls");
  }
  if (const auto fault = SpeculativeFault(request.speculative())) {
    violations.Add("speculative", *fault);
  }
  std::vector<FieldViolation> all = violations.Take();
  RequestLimits of_sampling = limits;
  of_sampling.may_generate_nothing =
      request.echo() || request.sampling_params().has_prompt_logprobs();
  for (FieldViolation& violation : SamplingViolations(request.sampling_params(), of_sampling)) {
    all.push_back(std::move(violation));
  }
  return InvalidFields(std::move(all));
}

std::optional<std::string> SpeculativeFault(v1::Speculative speculative) {
  if (v1::Speculative_IsValid(speculative)) return std::nullopt;
  return absl::StrCat("must be one of SPECULATIVE_AUTO, _NGRAM, _DRAFT and _NONE or not set, is ",
                      static_cast<int>(speculative));
}

absl::Status ValidateTokenizeRequest(const v1::TokenizeRequest& request) {
  Violations violations("");
  violations.AtMost(request.text().size(), kMaxPromptBytes, "text", "bytes");
  return InvalidFields(violations.Take());
}

absl::Status ValidateDetokenizeRequest(const v1::DetokenizeRequest& request,
                                       const RequestLimits& limits) {
  Violations violations("");
  // A text of the greatest length has at most this many tokens.
  violations.AtMost(static_cast<size_t>(request.token_ids_size()), kMaxPromptBytes, "token_ids",
                    "entries");
  for (int i = 0; i < request.token_ids_size(); ++i) {
    if (limits.vocab_size > 0 && request.token_ids(i) >= limits.vocab_size) {
      violations.TokenId(request.token_ids(i), limits.vocab_size,
                         absl::StrCat("token_ids[", i, "]"));
      break;
    }
  }
  return InvalidFields(violations.Take());
}

std::optional<std::string> MaxTokensFault(uint32_t prompt_tokens, const v1::SamplingParams& params,
                                          uint32_t max_model_len) {
  if (!params.has_max_tokens()) return std::nullopt;
  if (uint64_t{prompt_tokens} + params.max_tokens() <= max_model_len) return std::nullopt;
  return absl::StrCat(prompt_tokens, " prompt tokens + max_tokens ", params.max_tokens(),
                      " exceed the context of ", max_model_len, " tokens; at most ",
                      max_model_len - prompt_tokens, " can be generated");
}

std::optional<std::string> PromptLogprobsFault(uint64_t prompt_tokens,
                                               const v1::SamplingParams& params, uint64_t most) {
  if (!params.has_prompt_logprobs()) return std::nullopt;
  const auto of_token = uint64_t{1} + static_cast<uint64_t>(params.prompt_logprobs());
  if (prompt_tokens * of_token <= most) return std::nullopt;
  return absl::StrCat("of ", prompt_tokens, " prompt tokens, ", of_token,
                      " for each, are more than ", most,
                      " log probabilities; ask for fewer, or shorten the prompt");
}

absl::Status CheckContextLength(uint32_t prompt_tokens, const v1::SamplingParams& params,
                                const RequestLimits& limits) {
  BATON_CHECK(limits.max_model_len > 0, "the model's context is known");
  const uint64_t context = limits.max_model_len;
  if (prompt_tokens >= context) {
    return WithErrorInfo(
        InvalidField("prompt",
                     absl::StrCat("has ", prompt_tokens, " tokens, the context of ", context,
                                  " tokens leaves none for an answer; shorten it")),
        {.reason = kReasonContextLengthExceeded,
         .metadata = {{"max_model_len", absl::StrCat(context)}}});
  }
  if (const auto fault = MaxTokensFault(prompt_tokens, params, limits.max_model_len)) {
    return ContextLengthExceeded(*fault, limits.max_model_len);
  }
  if (uint64_t{prompt_tokens} + params.min_tokens() > context) {
    return InvalidField("sampling_params.min_tokens",
                        absl::StrCat("must be at most ", context - prompt_tokens,
                                     ", what the context leaves, is ", params.min_tokens()));
  }
  return absl::OkStatus();
}

void FillSamplingDefaults(v1::SamplingParams& params, uint32_t prompt_tokens,
                          uint32_t max_model_len, uint64_t seed) {
  BATON_CHECK(prompt_tokens < max_model_len, "CheckContextLength must have accepted the prompt",
              prompt_tokens);
  FillTemperatureAndTopP({}, params);
  if (!params.has_top_k()) params.set_top_k(0);
  if (!params.has_min_p()) params.set_min_p(0);
  if (!params.has_presence_penalty()) params.set_presence_penalty(0);
  if (!params.has_frequency_penalty()) params.set_frequency_penalty(0);
  if (!params.has_repetition_penalty()) params.set_repetition_penalty(1);
  if (!params.has_max_tokens()) params.set_max_tokens(max_model_len - prompt_tokens);
  if (!params.has_n()) params.set_n(1);
  if (!params.has_seed()) params.set_seed(seed);
  if (!params.has_skip_special_tokens()) params.set_skip_special_tokens(true);
}

}  // namespace baton
