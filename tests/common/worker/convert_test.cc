#include "common/worker/convert.h"

#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/kv_type_name.h"
#include "common/protocol/identity.h"
#include "common/protocol/validate_request.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/support/sampling_messages.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr int kVocab = 100;
constexpr int kContext = 64;
constexpr EngineLimits kLimits = {
    .vocab_size = kVocab, .max_model_len = kContext, .block_size = 16, .total_blocks = 4};

absl::StatusOr<CheckedSequence> Read(const internal::v1::SequenceSpec& spec) {
  return SequenceFromProto(spec, kLimits, SequenceRequest::Mode::kLocal, nullptr);
}

TEST(Convert, SamplingKeepsEveryField) {
  SamplingParams params{.temperature = 0.5f,
                        .top_p = 0.25f,
                        .top_k = 7,
                        .min_p = 0.125f,
                        .presence_penalty = -1,
                        .frequency_penalty = 1.5f,
                        .repetition_penalty = 1.25f,
                        .max_tokens = 9,
                        .min_tokens = 2,
                        .seed = UINT64_MAX,
                        .stop_token_ids = {3, 99},
                        .ignore_eos = true,
                        .logprobs = 4,
                        .prompt_logprobs = 7,
                        .logit_bias = {{1, -1.5f}, {98, 100.0f}}};
  internal::v1::SequenceSpec spec = GoodSpec();
  *spec.mutable_sampling() = SamplingToProto(params);
  const auto sequence = Read(spec);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const SamplingParams& back = sequence->request().sampling;
  EXPECT_EQ(back.temperature, params.temperature);
  EXPECT_EQ(back.top_p, params.top_p);
  EXPECT_EQ(back.top_k, params.top_k);
  EXPECT_EQ(back.min_p, params.min_p);
  EXPECT_EQ(back.presence_penalty, params.presence_penalty);
  EXPECT_EQ(back.frequency_penalty, params.frequency_penalty);
  EXPECT_EQ(back.repetition_penalty, params.repetition_penalty);
  EXPECT_EQ(back.max_tokens, params.max_tokens);
  EXPECT_EQ(back.min_tokens, params.min_tokens);
  EXPECT_EQ(back.seed, params.seed);
  EXPECT_EQ(back.stop_token_ids, params.stop_token_ids);
  EXPECT_EQ(back.ignore_eos, params.ignore_eos);
  EXPECT_EQ(back.logprobs, params.logprobs);
  EXPECT_EQ(back.prompt_logprobs, params.prompt_logprobs);
  EXPECT_EQ(back.logit_bias, params.logit_bias);
}

TEST(Convert, UnsetSamplingFieldsTakeTheDocumentedDefaults) {
  internal::v1::SequenceSpec spec = GoodSpec();
  spec.mutable_sampling()->set_top_k(-1);
  for (const uint32_t id : {9, 3}) spec.mutable_sampling()->add_stop_token_ids(id);
  const auto sequence = Read(spec);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const SamplingParams& result = sequence->request().sampling;
  EXPECT_EQ(result.temperature, 1);
  EXPECT_EQ(result.top_p, 1);
  EXPECT_EQ(result.repetition_penalty, 1);
  EXPECT_EQ(result.top_k, 0);
  EXPECT_FALSE(result.logprobs.has_value());
  EXPECT_THAT(result.stop_token_ids, ElementsAre(3, 9));
}

TEST(Convert, SequenceCarriesWhatTheEngineNeeds) {
  internal::v1::SequenceSpec spec = GoodSpec();
  spec.mutable_key()->set_choice(2);
  spec.set_cache_salt("salt");
  spec.set_isolate(true);
  const auto sequence = Read(spec);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const SequenceRequest* const request = &sequence->request();
  EXPECT_THAT(request->token_ids, ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(request->prompt_length, 3);
  EXPECT_EQ(request->choice, 2);
  EXPECT_EQ(request->cache_salt, "salt");
  EXPECT_TRUE(request->isolate);
  EXPECT_EQ(request->sampling.max_tokens, 10);
  EXPECT_FALSE(request->speculation.has_value());
}

TEST(Convert, SpeculationIsTheOneThatTheRequestNames) {
  internal::v1::SequenceSpec spec = GoodSpec();
  for (const auto& [asked, expected] : {std::pair(v1::SPECULATIVE_AUTO, SpeculationMode::kAuto),
                                        std::pair(v1::SPECULATIVE_NGRAM, SpeculationMode::kNgram),
                                        std::pair(v1::SPECULATIVE_DRAFT, SpeculationMode::kDraft),
                                        std::pair(v1::SPECULATIVE_NONE, SpeculationMode::kNone)}) {
    spec.set_speculative(asked);
    const auto sequence = Read(spec);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ(sequence->request().speculation, expected);
  }
}

TEST(Convert, ASequenceFromOutsideIsCheckedFieldByField) {
  for (const InvalidSpec& invalid : InvalidSpecs(kContext)) {
    internal::v1::SequenceSpec spec = GoodSpec();
    invalid.spoil(spec);
    const absl::Status status = Read(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << invalid.field;
    ASSERT_EQ(FieldViolations(status).size(), 1u) << invalid.field << status;
    EXPECT_EQ(FieldViolations(status)[0].field, invalid.field);
  }
}

// The router's door and a worker's tell the same of a field of the public API.
TEST(Convert, ASamplingFieldIsRefusedWithTheTextOfThePublicApi) {
  const RequestLimits limits = {.vocab_size = kVocab, .max_model_len = kContext};
  int compared = 0;
  for (const InvalidSpec& invalid : InvalidSpecs(kContext)) {
    internal::v1::SequenceSpec spec = GoodSpec();
    invalid.spoil(spec);
    v1::GenerateRequest request;
    request.set_prompt("x");
    *request.mutable_sampling_params() = spec.sampling();
    absl::Status status = ValidateGenerateRequest(request, limits);
    if (status.ok()) status = CheckContextLength(spec.prompt_length(), spec.sampling(), limits);
    if (status.ok()) continue;  // only a worker needs this field, or to be so
    ASSERT_EQ(FieldViolations(status).size(), 1u) << status;
    const FieldViolation here = FieldViolations(Read(spec).status()).at(0);
    const FieldViolation there = FieldViolations(status)[0];
    if (!absl::StartsWith(here.field, "sequence.sampling.")) continue;
    EXPECT_EQ(here.field, "sequence." + there.field.substr(0, 8) + there.field.substr(15));
    EXPECT_EQ(here.description, there.description);
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST(Convert, AllInvalidFieldsAreNamedAtOnce) {
  internal::v1::SequenceSpec spec = GoodSpec();
  spec.mutable_sampling()->set_top_p(0);
  spec.mutable_key()->set_attempt(0);
  spec.set_capability("short");
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(Read(spec).status())) {
    fields.push_back(violation.field);
  }
  EXPECT_THAT(fields, ElementsAre("sequence.sampling.top_p", "sequence.key.attempt",
                                  "sequence.capability"));
}

TEST(Convert, WhatNeedsMoreBlocksThanThereAreIsNamedByItsField) {
  internal::v1::SequenceSpec spec = GoodSpec();
  spec.mutable_sampling()->set_n(5);  // one block for each, of four
  const absl::Status status = Read(spec).status();
  ASSERT_EQ(FieldViolations(status).size(), 1u) << status;
  EXPECT_EQ(FieldViolations(status)[0].field, "sequence.sampling.n");
  EXPECT_TRUE(SequenceFromProto(spec, kLimits, SequenceRequest::Mode::kPrefillOnly, nullptr).ok());
}

TEST(Convert, ASequenceThatNoEngineOfTheseLimitsCanRunIsRefusedByItsMode) {
  internal::v1::SequenceSpec spec = GoodSpec();
  EngineLimits limits = kLimits;
  limits.total_blocks = 0;
  spec.mutable_sampling()->set_max_tokens(30);
  const auto refusal = [&](SequenceRequest::Mode mode) {
    return SequenceFromProto(spec, limits, mode, nullptr).status();
  };
  EXPECT_EQ(refusal(SequenceRequest::Mode::kPrefillOnly).code(),
            absl::StatusCode::kInvalidArgument);
  limits.total_blocks = 1;
  EXPECT_TRUE(refusal(SequenceRequest::Mode::kPrefillOnly).ok());
  const absl::Status status = refusal(SequenceRequest::Mode::kReceive);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("--num-kv-blocks"), std::string::npos) << status;
}

TEST(Convert, TokensKeepLogprobsAndTheirEnd) {
  const OutputToken token{
      .output_index = 7,
      .token_id = 42,
      .logprobs = TokenLogprobs{.logprob = -0.5f, .top = {{42, -0.5f}, {3, -1.5f}}},
      .finish_reason = FinishReason::kLength};
  const internal::v1::OutputToken proto = OutputTokenToProto(token, 1);
  EXPECT_EQ(proto.choice(), 1u);
  EXPECT_TRUE(proto.ends_sequence());
  const auto back = OutputTokenFromProto(proto, kVocab);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->output_index, 7);
  EXPECT_EQ(back->token_id, 42);
  EXPECT_EQ(back->finish_reason, FinishReason::kLength);
  ASSERT_TRUE(back->logprobs.has_value());
  EXPECT_EQ(back->logprobs->logprob, -0.5f);
  ASSERT_EQ(back->logprobs->top.size(), 2u);
  EXPECT_EQ(back->logprobs->top[1].token_id, 3);

  const auto plain = OutputTokenFromProto(
      OutputTokenToProto({.output_index = 0, .token_id = 1, .logprobs = {}}, 0), kVocab);
  ASSERT_TRUE(plain.ok());
  EXPECT_FALSE(plain->logprobs.has_value());
  EXPECT_EQ(plain->finish_reason, FinishReason::kNone);
}

TEST(Convert, APromptsLogProbabilitiesComeInMessagesOfTheirBound) {
  const size_t tokens = kMaxPromptLogprobsInMessage / 21 + 5;
  PromptScored scored{.first_token = 65, .tokens = {}};
  for (size_t i = 0; i < tokens; ++i) {
    TokenLogprobs& token = scored.tokens.emplace_back();
    token.logprob = -static_cast<float>(i);
    for (int top = 0; top < 20; ++top) token.top.push_back({top, static_cast<float>(i + 1)});
  }
  const std::vector<internal::v1::PromptLogprobs> messages = PromptLogprobsToProto(scored);
  ASSERT_EQ(messages.size(), 2u);
  size_t next = 0;
  for (const internal::v1::PromptLogprobs& message : messages) {
    EXPECT_EQ(message.first_token(), 65 + next);
    EXPECT_LE(static_cast<size_t>(message.logprobs_size() + message.top_logprobs_size()),
              kMaxPromptLogprobsInMessage);
    ASSERT_EQ(message.top_logprobs_size(), 20 * message.logprobs_size());
    ASSERT_EQ(message.top_token_ids_size(), 20 * message.logprobs_size());
    for (int i = 0; i < message.logprobs_size(); ++i, ++next) {
      EXPECT_EQ(message.logprobs(i), scored.tokens[next].logprob);
      EXPECT_EQ(message.top_token_ids(20 * i + 19), 19u);
      EXPECT_EQ(message.top_logprobs(20 * i), static_cast<float>(next + 1));
    }
  }
  EXPECT_EQ(next, tokens);
}

TEST(Convert, ATokenThatContradictsItselfIsRefused) {
  using Proto = internal::v1::OutputToken;
  const std::vector<std::function<void(Proto&)>> changes = {
      [](Proto& t) { t.mutable_token()->set_token_id(100); },
      [](Proto& t) { t.set_output_index(UINT32_MAX); },
      [](Proto& t) { t.set_ends_sequence(true); },
      [](Proto& t) { t.set_finish_reason(v1::FINISH_REASON_STOP); },
      [](Proto& t) { t.set_finish_reason(v1::FINISH_REASON_ABORT), t.set_ends_sequence(true); },
      [](Proto& t) { t.mutable_token()->add_top_logprobs()->set_token_id(1); },
      [](Proto& t) {
        t.mutable_token()->set_logprob(-1);
        t.mutable_token()->add_top_logprobs()->set_token_id(100);
      },
      [](Proto& t) {
        t.mutable_token()->set_logprob(-1);
        for (int i = 0; i < 21; ++i) t.mutable_token()->add_top_logprobs();
      },
  };
  for (const auto& change : changes) {
    Proto token = OutputTokenToProto({.output_index = 1, .token_id = 2, .logprobs = {}}, 0);
    change(token);
    EXPECT_EQ(OutputTokenFromProto(token, kVocab).status().code(),
              absl::StatusCode::kInvalidArgument)
        << token.ShortDebugString();
  }
}

TEST(Convert, AShapeHasTheFieldsOfItsLayout) {
  for (const KvType dtype : kAllKvTypes) {
    const internal::v1::KvShape shape = ShapeFromLayout(
        {.layers = 30, .kv_heads = 3, .head_dim = 64, .block_size = 48, .dtype = dtype}, "cpu");
    EXPECT_EQ(shape.layers(), 30u);
    EXPECT_EQ(shape.kv_heads(), 3u);
    EXPECT_EQ(shape.head_dim(), 64u);
    EXPECT_EQ(shape.block_size(), 48u);
    EXPECT_EQ(shape.dtype(), KvTypeName(dtype));
    EXPECT_EQ(shape.numerics(), "cpu");
    EXPECT_THAT(shape.wire_dtypes(), ElementsAre(KvTypeName(dtype)));
    EXPECT_TRUE(ValidateShape(shape, "shape").ok());
  }
}

TEST(Convert, AShapeTellsTheWindowOfEachLayerWhereALayerHasOne) {
  KvLayout layout = {.layers = 3, .kv_heads = 3, .head_dim = 64};
  EXPECT_EQ(ShapeFromLayout(layout, "cpu").layer_states_size(), 0);
  layout.groups = KvLayerGroups({512, 0, 128});
  const internal::v1::KvShape shape = ShapeFromLayout(layout, "cpu");
  ASSERT_EQ(shape.layer_states_size(), 3);
  EXPECT_EQ(shape.layer_states(0).kind(), internal::v1::LAYER_STATE_KIND_LAST_ROWS);
  EXPECT_EQ(shape.layer_states(0).window(), 512u);
  EXPECT_EQ(shape.layer_states(1).kind(), internal::v1::LAYER_STATE_KIND_ROWS);
  EXPECT_EQ(shape.layer_states(1).window(), 0u);
  EXPECT_EQ(shape.layer_states(2).kind(), internal::v1::LAYER_STATE_KIND_LAST_ROWS);
  EXPECT_EQ(shape.layer_states(2).window(), 128u);
  EXPECT_TRUE(ValidateShape(shape, "shape").ok());
}

TEST(Convert, AnIdentityDiffersWithEachOfItsParts) {
  const ModelConfig config{.architecture = "llama", .layers = 2};
  const auto identity = MakeIdentity("weights", "tokenizer", config);
  EXPECT_EQ(identity.protocol_version(), kProtocolVersion);
  EXPECT_EQ(identity.architecture(), "llama");
  EXPECT_EQ(identity.config_digest(), config.Digest());
  EXPECT_TRUE(CheckSameIdentity(identity, MakeIdentity("weights", "tokenizer", config)).ok());
  EXPECT_FALSE(CheckSameIdentity(identity, MakeIdentity("others", "tokenizer", config)).ok());
  EXPECT_FALSE(CheckSameIdentity(identity, MakeIdentity("weights", "another", config)).ok());
  EXPECT_FALSE(CheckSameIdentity(identity, MakeIdentity("weights", "tokenizer",
                                                        {.architecture = "llama", .layers = 3}))
                   .ok());
}

}  // namespace
}  // namespace baton
