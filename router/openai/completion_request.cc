#include "router/openai/completion_request.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "router/openai/completion_answer.h"
#include "router/openai/field_table.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// One prompt: a text, or a list of token ids.
void ReadPrompt(JsonFields& fields, const std::string& name, const Json& prompt,
                v1::GenerateRequest& request) {
  if (prompt.is_string()) {
    request.set_prompt(prompt.get<std::string>());
  } else if (prompt.is_array()) {
    ReadTokenIds(fields, name, prompt, *request.mutable_prompt_token_ids()->mutable_ids());
  } else {
    fields.Fail(name, "must be a string or a list of token ids");
  }
}

// string | [string] | [int] | [[int]]; each prompt becomes a copy of `request`.
std::vector<v1::GenerateRequest> ReadPrompts(JsonFields& fields,
                                             const v1::GenerateRequest& request) {
  std::vector<v1::GenerateRequest> prompts;
  const Json* const prompt = fields.Find("prompt");
  if (prompt == nullptr) {
    fields.Fail("prompt", "is missing");
    return prompts;
  }
  const bool is_list = prompt->is_array() && !prompt->empty() && !prompt->front().is_number();
  if (!is_list) {
    ReadPrompt(fields, "prompt", *prompt, prompts.emplace_back(request));
    return prompts;
  }
  if (prompt->size() > kMaxPrompts) {
    fields.Fail("prompt", absl::StrCat("has ", prompt->size(), " prompts, at most ", kMaxPrompts,
                                       " are allowed"));
    return prompts;
  }
  if (const size_t bytes = request.ByteSizeLong(); bytes * prompt->size() > kMaxMessageBytes) {
    fields.Fail("prompt", absl::StrCat("has ", prompt->size(), " prompts, each with the ", bytes,
                                       " bytes of the other fields, such as a schema: together at "
                                       "most ",
                                       kMaxMessageBytes, " are allowed"));
    return prompts;
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    ReadPrompt(fields, absl::StrCat("prompt[", i, "]"), (*prompt)[i],
               prompts.emplace_back(request));
  }
  return prompts;
}

// logprobs and echo. Returns whether the answer has log probabilities.
bool ReadCompletionLogprobs(JsonFields& fields, v1::GenerateRequest& request) {
  v1::SamplingParams& params = *request.mutable_sampling_params();
  request.set_echo(fields.Bool("echo").value_or(false));
  const auto top = fields.Integer("logprobs", 0, kMaxLogprobs);
  if (!top.has_value()) return false;
  params.set_logprobs(static_cast<int32_t>(*top));
  if (request.echo()) params.set_prompt_logprobs(static_cast<int32_t>(*top));
  return true;
}

}  // namespace

absl::StatusOr<ApiRequest> ReadCompletionRequest(absl::string_view body,
                                                 const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(Json json, ParseJsonBody(body));
  JsonFields fields(json);
  v1::GenerateRequest request;
  v1::SamplingParams& params = *request.mutable_sampling_params();
  ReadRoutingFields(fields, context, request);
  ReadSamplingFields(fields, params);
  const uint32_t choices = params.has_n() ? params.n() : 1;
  // The best of as many as are asked for are all of them.
  if (const Json* const best_of = fields.Find("best_of"); best_of && *best_of == choices) {
    json.erase("best_of");
  }
  RefuseFields(CompletionFieldTable(), fields);
  params.set_max_tokens(kDefaultCompletionTokens);
  ReadMaxTokens(fields, params);
  ReadFormFields(fields, request);
  request.set_parse_special(fields.Bool("parse_special").value_or(true));
  AnswerOptions options{.id = absl::StrCat("cmpl-", context.answer_id),
                        .model = context.model,
                        .created = context.created,
                        .stream = ReadStreamFields(fields),
                        .choices = choices,
                        .logprobs = ReadCompletionLogprobs(fields, request),
                        .return_timings = fields.Bool("return_timings").value_or(false),
                        .return_token_ids = request.return_token_ids()};
  request.set_stream(options.stream.stream);
  if (options.stream.continuous_usage) request.set_return_token_ids(true);  // to count them
  ApiRequest result{.prompts = ReadPrompts(fields, request), .stream = options.stream.stream};
  if (params.has_prompt_logprobs()) {
    const uint64_t of_choice = uint64_t{1} + static_cast<uint64_t>(params.prompt_logprobs());
    result.logprobs_of_prompt_token = choices * of_choice;
  }
  BATON_RETURN_IF_ERROR(fields.status());
  result.format = NewCompletionAnswer(std::move(options), result.prompts.size());
  return result;
}

}  // namespace baton
