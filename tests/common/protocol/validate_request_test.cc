#include "common/protocol/validate_request.h"

#include <cmath>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr RequestLimits kLimits = {.vocab_size = 100, .max_model_len = 64};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

v1::GenerateRequest GoodRequest() {
  v1::GenerateRequest request;
  request.set_prompt("Hello");
  return request;
}

std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(status)) fields.push_back(violation.field);
  return fields;
}

TEST(ValidateRequest, AcceptsWhatTheApiAllows) {
  v1::GenerateRequest request = GoodRequest();
  EXPECT_TRUE(ValidateGenerateRequest(request, kLimits).ok());
  v1::SamplingParams& params = *request.mutable_sampling_params();
  params.set_temperature(0);
  params.set_top_p(1);
  params.set_top_k(-1);
  params.set_min_p(1);
  params.set_presence_penalty(-2);
  params.set_frequency_penalty(2);
  params.set_repetition_penalty(0.01f);
  params.set_max_tokens(1);
  params.set_min_tokens(1);
  params.set_n(1);
  params.add_stop("x");
  params.add_stop_token_ids(99);
  params.set_logprobs(20);
  (*params.mutable_logit_bias())[0] = -100;
  EXPECT_TRUE(ValidateGenerateRequest(request, kLimits).ok());
}

TEST(ValidateRequest, NamesTheSamplingFieldThatIsWrong) {
  using Params = v1::SamplingParams;
  const std::vector<std::pair<std::string, std::function<void(Params&)>>> cases = {
      {"temperature", [](Params& p) { p.set_temperature(kNan); }},
      {"temperature", [](Params& p) { p.set_temperature(kInfinity); }},
      {"temperature", [](Params& p) { p.set_temperature(-0.1f); }},
      {"top_p", [](Params& p) { p.set_top_p(0); }},
      {"top_p", [](Params& p) { p.set_top_p(2); }},
      {"top_p", [](Params& p) { p.set_top_p(kNan); }},
      {"top_k", [](Params& p) { p.set_top_k(-5); }},
      {"min_p", [](Params& p) { p.set_min_p(-0.1f); }},
      {"min_p", [](Params& p) { p.set_min_p(kNan); }},
      {"presence_penalty", [](Params& p) { p.set_presence_penalty(2.1f); }},
      {"presence_penalty", [](Params& p) { p.set_presence_penalty(kNan); }},
      {"frequency_penalty", [](Params& p) { p.set_frequency_penalty(-kInfinity); }},
      {"repetition_penalty", [](Params& p) { p.set_repetition_penalty(0); }},
      {"repetition_penalty", [](Params& p) { p.set_repetition_penalty(kNan); }},
      {"max_tokens", [](Params& p) { p.set_max_tokens(0); }},
      {"min_tokens", [](Params& p) { p.set_max_tokens(3), p.set_min_tokens(4); }},
      {"min_tokens", [](Params& p) { p.set_min_tokens(65); }},
      {"n", [](Params& p) { p.set_n(0); }},
      {"n", [](Params& p) { p.set_n(17); }},
      {"stop", [](Params& p) { p.add_stop(""); }},
      {"stop",
       [](Params& p) {
         for (int i = 0; i < 17; ++i) p.add_stop("x");
       }},
      {"stop", [](Params& p) { p.add_stop(std::string(5000, 'x')); }},
      {"stop_token_ids", [](Params& p) { p.add_stop_token_ids(100); }},
      {"logprobs", [](Params& p) { p.set_logprobs(-1); }},
      {"logprobs", [](Params& p) { p.set_logprobs(21); }},
      {"prompt_logprobs", [](Params& p) { p.set_prompt_logprobs(-1); }},
      {"prompt_logprobs", [](Params& p) { p.set_prompt_logprobs(21); }},
      {"min_tokens",
       [](Params& p) { p.set_max_tokens(0), p.set_prompt_logprobs(0), p.set_min_tokens(1); }},
      {"logit_bias", [](Params& p) { (*p.mutable_logit_bias())[100] = 1; }},
      {"logit_bias", [](Params& p) { (*p.mutable_logit_bias())[1] = kNan; }},
      {"logit_bias", [](Params& p) { (*p.mutable_logit_bias())[1] = 101; }},
      {"bad_words", [](Params& p) { p.add_bad_words("x"); }},
      {"truncate_prompt_tokens", [](Params& p) { p.set_truncate_prompt_tokens(0); }},
  };
  for (const auto& [field, change] : cases) {
    v1::GenerateRequest request = GoodRequest();
    change(*request.mutable_sampling_params());
    const absl::Status status = ValidateGenerateRequest(request, kLimits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(Fields(status), ElementsAre("sampling_params." + field))
        << request.ShortDebugString();
  }
}

TEST(ValidateRequest, NamesTheInputThatIsWrong) {
  using Request = v1::GenerateRequest;
  const std::vector<std::pair<std::string, std::function<void(Request&)>>> cases = {
      {"prompt", [](Request& r) { r.clear_input(); }},
      {"prompt", [](Request& r) { r.set_prompt(""); }},
      {"prompt", [](Request& r) { r.set_prompt(std::string(kMaxPromptBytes + 1, 'x')); }},
      {"prompt_token_ids.ids", [](Request& r) { r.mutable_prompt_token_ids(); }},
      {"prompt_token_ids.ids", [](Request& r) { r.mutable_prompt_token_ids()->add_ids(100); }},
      {"chat.messages", [](Request& r) { r.mutable_chat(); }},
      {"chat.messages[0].role",
       [](Request& r) { r.mutable_chat()->add_messages()->set_content("x"); }},
      {"speculative",
       [](Request& r) {
         r.set_speculative(static_cast<v1::Speculative>(v1::Speculative_MAX + 1));
       }},
      {"request_id", [](Request& r) { r.set_request_id(std::string(257, 'x')); }},
  };
  for (const auto& [field, change] : cases) {
    v1::GenerateRequest request = GoodRequest();
    change(request);
    EXPECT_THAT(Fields(ValidateGenerateRequest(request, kLimits)), ElementsAre(field));
  }
}

TEST(ValidateRequest, TellsAllViolationsAtOnce) {
  v1::GenerateRequest request = GoodRequest();
  request.set_request_id(std::string(257, 'x'));
  request.mutable_sampling_params()->set_top_p(2);
  request.mutable_sampling_params()->set_n(17);
  EXPECT_THAT(Fields(ValidateGenerateRequest(request, kLimits)),
              ElementsAre("request_id", "sampling_params.top_p", "sampling_params.n"));
}

TEST(ValidateRequest, TakesMaxTokensZeroWhereThePromptIsAskedFor) {
  v1::GenerateRequest request = GoodRequest();
  request.mutable_sampling_params()->set_max_tokens(0);
  EXPECT_FALSE(ValidateGenerateRequest(request, kLimits).ok());
  request.set_echo(true);
  EXPECT_TRUE(ValidateGenerateRequest(request, kLimits).ok());
  request.set_echo(false);
  request.mutable_sampling_params()->set_prompt_logprobs(20);
  EXPECT_TRUE(ValidateGenerateRequest(request, kLimits).ok());
  EXPECT_THAT(SamplingViolations(request.sampling_params(), kLimits).size(), 1u)
      << "a worker always generates";
}

TEST(PromptLogprobsFault, IsOfMoreThanAreTold) {
  v1::SamplingParams params;
  EXPECT_EQ(PromptLogprobsFault(1 << 30, params, 100), std::nullopt);
  params.set_prompt_logprobs(4);
  EXPECT_EQ(PromptLogprobsFault(20, params, 100), std::nullopt);
  EXPECT_EQ(
      PromptLogprobsFault(21, params, 100),
      "of 21 prompt tokens, 5 for each, are more than 100 log probabilities; ask for fewer, or "
      "shorten the prompt");
}

TEST(ContextLength, PromptAndAnswerMustFit) {
  v1::SamplingParams params;
  EXPECT_TRUE(CheckContextLength(63, params, kLimits).ok());
  EXPECT_EQ(ErrorReason(CheckContextLength(64, params, kLimits)), kReasonContextLengthExceeded);
  params.set_max_tokens(4);
  EXPECT_TRUE(CheckContextLength(60, params, kLimits).ok());
  const absl::Status status = CheckContextLength(61, params, kLimits);
  EXPECT_EQ(ErrorReason(status), kReasonContextLengthExceeded);
  EXPECT_THAT(Fields(status), ElementsAre("sampling_params.max_tokens"));
  params.set_max_tokens(UINT32_MAX);
  EXPECT_EQ(ErrorReason(CheckContextLength(61, params, kLimits)), kReasonContextLengthExceeded);
  params.clear_max_tokens();
  params.set_min_tokens(5);
  EXPECT_THAT(Fields(CheckContextLength(60, params, kLimits)),
              ElementsAre("sampling_params.min_tokens"));
}

TEST(FillSamplingDefaults, KeepsWhatTheClientSet) {
  v1::SamplingParams params;
  params.set_temperature(0);
  params.set_seed(0);
  FillSamplingDefaults(params, 60, 64, 42);
  EXPECT_EQ(params.temperature(), 0);
  EXPECT_EQ(params.top_p(), 0.95F);
  EXPECT_EQ(params.seed(), 0u);
  EXPECT_EQ(params.max_tokens(), 4u);
  EXPECT_EQ(params.repetition_penalty(), 1);
  EXPECT_TRUE(params.skip_special_tokens());
  v1::SamplingParams empty;
  FillSamplingDefaults(empty, 1, 64, 42);
  EXPECT_EQ(empty.seed(), 42u);
  EXPECT_EQ(empty.temperature(), 0.7F);
  EXPECT_EQ(empty.top_p(), 0.95F);
}

}  // namespace
}  // namespace baton
