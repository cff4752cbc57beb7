#include "router/anthropic/messages_request.h"

#include <limits>
#include <memory>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "router/anthropic/messages_format.h"
#include "router/anthropic/messages_input.h"
#include "router/api/renamed_params.h"
#include "router/api/tool_answers.h"
#include "router/openai/chat_fields.h"
#include "router/openai/common_fields.h"
#include "router/openai/reasoning_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

using enum Handling;

constexpr FieldHandling kMessagesFields[] = {
    {"max_tokens"},
    {"messages"},
    {"metadata"},
    {"model"},
    {"output_config"},
    {"output_format"},
    {"stop_sequences"},
    {"stream"},
    {"system"},
    {"temperature"},
    {"thinking"},
    {"tool_choice"},
    {"tools"},
    {"top_k"},
    {"top_p"},
    {"cache_control", kTolerated},
    {"context_management", kTolerated},
    {"diagnostics", kTolerated},
    {"inference_geo", kTolerated},
    {"service_tier", kTolerated},
    {"speed", kTolerated},
    {"user_profile_id", kTolerated},
    {"workspace_id", kTolerated},
    {"container", kRefused},
    {"mcp_servers", kRefused, "[]"},
    {"n", kRefused, "1"},
};

// metadata.user_id. What is longer than a user's name may be stands by its hash.
void ReadUser(JsonFields& fields, v1::GenerateRequest& request) {
  const Json* const metadata = fields.Object("metadata");
  if (metadata == nullptr) return;
  JsonFields inner(*metadata, fields.PathOf("metadata"));
  if (const auto user = inner.String("user_id")) {
    request.set_user(*user);
    if (user->size() > kMaxNameBytes) {
      Sha256 hash;
      hash.Update(*user);
      request.set_user(ToHex(hash.Finish()));
    }
  }
  fields.Adopt(inner.status());
}

void ReadStops(JsonFields& fields, v1::SamplingParams& params) {
  const Json* const stops = fields.Array("stop_sequences");
  if (stops == nullptr) return;
  for (const Json& stop : *stops) {
    if (!stop.is_string()) return fields.Fail("stop_sequences", "must be a list of strings");
    params.add_stop(stop.get<std::string>());
  }
}

// A form of the answer, such as output_config.format.
void ReadFormat(JsonFields& fields, absl::string_view name, v1::GenerateRequest& request) {
  const Json* const format = fields.Object(name);
  if (format == nullptr) return;
  JsonFields typed(*format, fields.PathOf(name));
  ReadTypedForm(typed, /*schema_is_inside=*/false, request);
  fields.Adopt(typed.status());
}

void ReadOutputConfig(JsonFields& fields, v1::GenerateRequest& request) {
  if (const Json* const config = fields.Object("output_config")) {
    JsonFields inner(*config, fields.PathOf("output_config"));
    ReadFormat(inner, "format", request);
    ReadEffort(inner, "effort", *request.mutable_chat());
    fields.Adopt(inner.status());
  }
  ReadFormat(fields, "output_format", request);
  ReadFormFields(fields, request);
}

void ReadAll(JsonFields& fields, const ApiContext& context, v1::GenerateRequest& request,
             ToolTable& tools) {
  RefuseFields(kMessagesFields, fields);
  v1::SamplingParams& params = *request.mutable_sampling_params();
  ReadMessagesInput(fields, *request.mutable_chat(), tools);
  ReadTemplateFields(fields, *request.mutable_chat());
  ReadSamplingFields(fields, params);
  ReadRoutingFields(fields, context, request);
  ReadStops(fields, params);
  ReadUser(fields, request);
  ReadOutputConfig(fields, request);
  ReadThinking(fields, "thinking", *request.mutable_chat());
  if (const auto most = fields.Integer("max_tokens", 1, std::numeric_limits<int32_t>::max())) {
    params.set_max_tokens(static_cast<uint32_t>(*most));
  }
  request.set_stream(fields.Bool("stream").value_or(false));
}

// Reads the request alone, and its tools into `tools`.
absl::StatusOr<v1::GenerateRequest> ReadPrompt(const Json& body, const ApiContext& context,
                                               ToolTable& tools) {
  JsonFields fields(body);
  v1::GenerateRequest request;
  ReadAll(fields, context, request, tools);
  if (!request.sampling_params().has_max_tokens()) fields.Fail("max_tokens", "is missing");
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

}  // namespace

absl::Span<const FieldHandling> MessagesFields() { return kMessagesFields; }

absl::StatusOr<v1::GenerateRequest> ReadMessagesPrompt(const Json& body,
                                                       const ApiContext& context) {
  ToolTable tools;
  return ReadPrompt(body, context, tools);
}

absl::StatusOr<ApiRequest> ReadMessagesRequest(absl::string_view body, const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonBody(body));
  ToolTable tools;
  BATON_ASSIGN_OR_RETURN(v1::GenerateRequest request, ReadPrompt(json, context, tools));
  LeaveMarkers(context.tool_form, request);
  ApiRequest result{.stream = request.stream(), .warning = tools.Warning()};
  result.format = std::make_unique<MessagesFormat>(
      MessagesFormat::Options{.request_id = context.request_id,
                              .answer_id = context.answer_id,
                              .model = context.model,
                              .stream = request.stream(),
                              .max_tokens = request.sampling_params().max_tokens()},
      ParserOf(context, request.chat()));
  result.prompts.push_back(std::move(request));
  return result;
}

absl::StatusOr<v1::GenerateRequest> ReadCountTokens(absl::string_view body,
                                                    const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonBody(body));
  JsonFields fields(json);
  v1::GenerateRequest request;
  ToolTable tools;
  ReadAll(fields, context, request, tools);
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

std::string CountTokensBody(uint32_t prompt_tokens) {
  return DumpJson({{"input_tokens", prompt_tokens}});
}

ApiError InMessagesWords(ApiError error) {
  constexpr RenamedParam kRenamed[] = {{"messages", "messages"},
                                       {"stop", "stop_sequences"},
                                       {"response_format", "output_config.format"}};
  return WithRenamedParam(std::move(error), kRenamed);
}

}  // namespace baton
