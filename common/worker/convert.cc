#include "common/worker/convert.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/kv_type_name.h"
#include "common/base/status_macros.h"
#include "common/handoff/carried_tokens.h"
#include "common/protocol/validate_request.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr size_t kCapabilityBytes = 16;
constexpr uint32_t kMaxOutputIndex = 1 << 30;  // fits an int with room to add two of them

// The number of choices; 1 if it is not set.
uint32_t ChoicesOf(const internal::v1::SequenceSpec& spec) {
  return spec.sampling().has_n() ? spec.sampling().n() : 1;
}

// The ranges of the public API, and what the router must have filled in.
std::vector<FieldViolation> ViolationsOfSampling(const v1::SamplingParams& params,
                                                 const EngineLimits& limits) {
  std::vector<FieldViolation> violations = SamplingViolations(
      params, {.vocab_size = static_cast<uint32_t>(limits.vocab_size), .max_model_len = 0},
      "sequence.sampling");
  if (!params.has_max_tokens()) {
    violations.push_back({"sequence.sampling.max_tokens", "must be set"});
  }
  if (!params.has_seed()) violations.push_back({"sequence.sampling.seed", "must be set"});
  return violations;
}

// The prompt and what was generated so far.
void CheckTokens(const internal::v1::SequenceSpec& spec, const EngineLimits& limits,
                 std::vector<FieldViolation>& violations) {
  const int tokens = spec.token_ids_size();
  if (tokens < 1 || tokens > limits.max_model_len) {
    violations.push_back(
        {"sequence.token_ids", absl::StrCat("must have from 1 to ", limits.max_model_len,
                                            " tokens, the context, has ", tokens)});
    return;
  }
  const auto outside =
      std::find_if(spec.token_ids().begin(), spec.token_ids().end(),
                   [&](uint32_t id) { return id >= static_cast<uint32_t>(limits.vocab_size); });
  if (outside != spec.token_ids().end()) {
    violations.push_back(
        {"sequence.token_ids",
         absl::StrCat("token id ", *outside, " is outside the vocabulary of ", limits.vocab_size)});
  }
  if (spec.prompt_length() < 1 || spec.prompt_length() > static_cast<uint32_t>(tokens)) {
    violations.push_back(
        {"sequence.prompt_length",
         absl::StrCat("must be from 1 to the ", tokens, " token_ids, is ", spec.prompt_length())});
  }
}

// All but `sampling`, each field by itself.
void CheckSequence(const internal::v1::SequenceSpec& spec, const EngineLimits& limits,
                   std::vector<FieldViolation>& violations) {
  if (spec.key().attempt() < 1) {
    violations.push_back({"sequence.key.attempt", "must be at least 1"});
  }
  if (spec.capability().size() != kCapabilityBytes) {
    violations.push_back(
        {"sequence.capability", absl::StrCat("must have ", kCapabilityBytes, " bytes")});
  }
  if (spec.cache_salt().size() > kMaxNameBytes) {
    violations.push_back(
        {"sequence.cache_salt", absl::StrCat("has more than ", kMaxNameBytes, " bytes")});
  }
  if (const auto fault = SpeculativeFault(spec.speculative())) {
    violations.push_back({"sequence.speculative", *fault});
  }
  CheckTokens(spec, limits, violations);
}

// Fields that are good by themselves against each other.
absl::Status CheckTogether(const internal::v1::SequenceSpec& spec, const EngineLimits& limits) {
  const uint32_t choices = ChoicesOf(spec);
  if (spec.key().choice() >= kMaxChoices || spec.key().choice() + choices > kMaxChoices) {
    return InvalidField("sequence.key.choice", absl::StrCat("must be, with the ", choices,
                                                            " that follow, below ", kMaxChoices));
  }
  const uint32_t max_tokens = spec.sampling().max_tokens();
  const uint32_t produced = static_cast<uint32_t>(spec.token_ids_size()) - spec.prompt_length();
  if (produced >= max_tokens) {
    return InvalidField(
        "sequence.token_ids",
        absl::StrCat("hold ", produced, " output tokens already, max_tokens is ", max_tokens));
  }
  if (const auto fault =
          PromptLogprobsFault(spec.prompt_length(), spec.sampling(), kMaxPromptLogprobs)) {
    return InvalidField("sequence.sampling.prompt_logprobs", *fault);
  }
  const auto fault = MaxTokensFault(spec.prompt_length(), spec.sampling(),
                                    static_cast<uint32_t>(limits.max_model_len));
  return fault ? InvalidField("sequence.sampling.max_tokens", *fault) : absl::OkStatus();
}

std::optional<SpeculationMode> SpeculationFromProto(v1::Speculative speculative) {
  switch (speculative) {
    case v1::SPECULATIVE_AUTO:
      return SpeculationMode::kAuto;
    case v1::SPECULATIVE_NGRAM:
      return SpeculationMode::kNgram;
    case v1::SPECULATIVE_DRAFT:
      return SpeculationMode::kDraft;
    case v1::SPECULATIVE_NONE:
      return SpeculationMode::kNone;
    default:
      return std::nullopt;
  }
}

// REQUIRES: no violations.
SamplingParams ReadSampling(const v1::SamplingParams& params) {
  SamplingParams result;
  if (params.has_temperature()) result.temperature = params.temperature();
  if (params.has_top_p()) result.top_p = params.top_p();
  if (params.has_top_k()) result.top_k = std::max(params.top_k(), 0);
  if (params.has_min_p()) result.min_p = params.min_p();
  if (params.has_presence_penalty()) result.presence_penalty = params.presence_penalty();
  if (params.has_frequency_penalty()) result.frequency_penalty = params.frequency_penalty();
  if (params.has_repetition_penalty()) result.repetition_penalty = params.repetition_penalty();
  result.max_tokens = static_cast<int>(params.max_tokens());
  result.min_tokens = static_cast<int>(params.min_tokens());
  result.seed = params.seed();
  for (const uint32_t id : params.stop_token_ids()) {
    result.stop_token_ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(result.stop_token_ids.begin(), result.stop_token_ids.end());
  result.ignore_eos = params.ignore_eos();
  if (params.has_logprobs()) result.logprobs = params.logprobs();
  if (params.has_prompt_logprobs()) result.prompt_logprobs = params.prompt_logprobs();
  for (const auto& [id, bias] : params.logit_bias()) {
    result.logit_bias[static_cast<int32_t>(id)] = bias;
  }
  return result;
}

// tests/planted_bugs: grammar_replay
absl::StatusOr<GrammarState> ReadGrammar(const internal::v1::SequenceSpec& spec,
                                         const SequenceRequest& request, const EngineLimits& limits,
                                         const GrammarReader* grammars) {
  if (grammars == nullptr) {
    return WithErrorInfo(
        absl::FailedPreconditionError(
            "sequence.grammar: this worker does not support grammars; its log says why"),
        {.reason = "NO_GRAMMARS"});
  }
  const auto outputs =
      absl::MakeConstSpan(request.token_ids).subspan(static_cast<size_t>(request.prompt_length));
  BATON_ASSIGN_OR_RETURN(
      GrammarState state,
      grammars->Read({.grammar = spec.grammar(), .cache_salt = spec.cache_salt()}, outputs));
  if (state.vocab_size() != limits.vocab_size) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence.grammar: was compiled for ", state.vocab_size(),
                     " tokens, but this worker's model has ", limits.vocab_size,
                     "; start router and workers with the same model file"));
  }
  return state;
}

}  // namespace

struct SequenceBorder {
  static CheckedSequence Make(SequenceRequest request) {
    return CheckedSequence(std::move(request));
  }
};

absl::StatusOr<CheckedSequence> SequenceFromProto(const internal::v1::SequenceSpec& spec,
                                                  const EngineLimits& limits,
                                                  SequenceRequest::Mode mode,
                                                  const GrammarReader* grammars) {
  std::vector<FieldViolation> violations = ViolationsOfSampling(spec.sampling(), limits);
  CheckSequence(spec, limits, violations);
  BATON_RETURN_IF_ERROR(InvalidFields(std::move(violations)));
  BATON_RETURN_IF_ERROR(CheckTogether(spec, limits));
  SequenceRequest request;
  request.mode = mode;
  request.token_ids.assign(spec.token_ids().begin(), spec.token_ids().end());
  request.prompt_length = static_cast<int>(spec.prompt_length());
  request.sampling = ReadSampling(spec.sampling());
  request.choice = static_cast<int>(spec.key().choice());
  request.choices = static_cast<int>(ChoicesOf(spec));
  request.cache_salt = spec.cache_salt();
  request.isolate = spec.isolate();
  request.speculation = SpeculationFromProto(spec.speculative());
  if (const auto misfit = FindMisfit(request, limits)) {
    return InvalidField(absl::StrCat("sequence.", misfit->field), misfit->description);
  }
  if (!spec.grammar().empty()) {
    BATON_ASSIGN_OR_RETURN(request.grammar, ReadGrammar(spec, request, limits, grammars));
  }
  if (!IsWellFormed(request, limits)) {
    return absl::InternalError(
        "sequence: its fields passed their checks, and the engine cannot take it; report the "
        "request to the maintainers of Baton");
  }
  return SequenceBorder::Make(std::move(request));
}

v1::FinishReason FinishReasonToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kNone:
      break;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

internal::v1::OutputToken OutputTokenToProto(const OutputToken& token, int choice) {
  internal::v1::OutputToken result;
  result.set_output_index(static_cast<uint32_t>(token.output_index));
  result.set_choice(static_cast<uint32_t>(choice));
  result.set_ends_sequence(token.finish_reason != FinishReason::kNone);
  result.set_finish_reason(FinishReasonToProto(token.finish_reason));
  v1::TokenLogprob& out = *result.mutable_token();
  out.set_token_id(static_cast<uint32_t>(token.token_id));
  if (token.logprobs) {
    out.set_logprob(token.logprobs->logprob);
    for (const TokenLogprobs::Top& top : token.logprobs->top) {
      v1::TopLogprob& entry = *out.add_top_logprobs();
      entry.set_token_id(static_cast<uint32_t>(top.token_id));
      entry.set_logprob(top.logprob);
    }
  }
  return result;
}

std::vector<internal::v1::PromptLogprobs> PromptLogprobsToProto(const PromptScored& scored) {
  std::vector<internal::v1::PromptLogprobs> messages;
  size_t room = 0;
  for (size_t i = 0; i < scored.tokens.size(); ++i) {
    const TokenLogprobs& token = scored.tokens[i];
    const size_t numbers = 1 + token.top.size();
    if (room < numbers) {
      messages.emplace_back().set_first_token(static_cast<uint32_t>(scored.first_token) +
                                              static_cast<uint32_t>(i));
      room = kMaxPromptLogprobsInMessage;
    }
    room -= numbers;
    internal::v1::PromptLogprobs& message = messages.back();
    message.add_logprobs(token.logprob);
    for (const TokenLogprobs::Top& top : token.top) {
      message.add_top_token_ids(static_cast<uint32_t>(top.token_id));
      message.add_top_logprobs(top.logprob);
    }
  }
  return messages;
}

absl::StatusOr<OutputToken> OutputTokenFromProto(const internal::v1::OutputToken& token,
                                                 int vocab_size) {
  const auto in_vocabulary = [&](uint32_t id) { return id < static_cast<uint32_t>(vocab_size); };
  const v1::TokenLogprob& in = token.token();
  if (token.output_index() >= kMaxOutputIndex) {
    return InvalidField("token.output_index", "is more than any context can hold");
  }
  if (!in_vocabulary(in.token_id())) {
    return InvalidField("token.token_id",
                        absl::StrCat(in.token_id(), " is outside the vocabulary of ", vocab_size));
  }
  if (in.top_logprobs_size() > kMaxLogprobs || (in.top_logprobs_size() > 0 && !in.has_logprob())) {
    return InvalidField("token.top_logprobs",
                        absl::StrCat("must be at most ", kMaxLogprobs, ", with logprob set"));
  }
  OutputToken result;
  result.output_index = static_cast<int>(token.output_index());
  result.token_id = static_cast<int32_t>(in.token_id());
  if (in.has_logprob()) {
    result.logprobs.emplace();
    result.logprobs->logprob = in.logprob();
    for (const v1::TopLogprob& top : in.top_logprobs()) {
      if (!in_vocabulary(top.token_id())) {
        return InvalidField("token.top_logprobs", "holds an id outside the vocabulary");
      }
      result.logprobs->top.push_back({static_cast<int32_t>(top.token_id()), top.logprob()});
    }
  }
  if (token.finish_reason() == v1::FINISH_REASON_STOP) {
    result.finish_reason = FinishReason::kStop;
  } else if (token.finish_reason() == v1::FINISH_REASON_LENGTH) {
    result.finish_reason = FinishReason::kLength;
  } else if (token.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
    return InvalidField("token.finish_reason", "must be STOP or LENGTH where a token carries one");
  }
  if (token.ends_sequence() != (result.finish_reason != FinishReason::kNone)) {
    return InvalidField("token.ends_sequence", "contradicts finish_reason");
  }
  return result;
}

internal::v1::ModelIdentity MakeIdentity(const std::string& weights_digest,
                                         const std::string& tokenizer_digest,
                                         const ModelConfig& config) {
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(kProtocolVersion);
  identity.set_weights_digest(weights_digest);
  identity.set_architecture(config.architecture);
  identity.set_config_digest(config.Digest());
  identity.set_tokenizer_digest(tokenizer_digest);
  return identity;
}

internal::v1::KvShape ShapeFromLayout(const KvLayout& layout, const std::string& numerics) {
  internal::v1::KvShape shape;
  shape.set_layers(static_cast<uint32_t>(layout.layers));
  shape.set_kv_heads(static_cast<uint32_t>(layout.kv_heads));
  shape.set_head_dim(static_cast<uint32_t>(layout.head_dim));
  shape.set_dtype(KvTypeName(layout.dtype));
  shape.set_block_size(static_cast<uint32_t>(layout.block_size));
  shape.set_numerics(numerics);
  shape.add_wire_dtypes(KvTypeName(layout.dtype));
  SetLayerStates(layout, shape);
  return shape;
}

}  // namespace baton
