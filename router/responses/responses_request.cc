#include "router/responses/responses_request.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/rpc/limits.h"
#include "router/api/renamed_params.h"
#include "router/api/tool_answers.h"
#include "router/openai/chat_fields.h"
#include "router/openai/common_fields.h"
#include "router/openai/reasoning_fields.h"
#include "router/responses/response_object.h"
#include "router/responses/responses_format.h"
#include "router/responses/responses_input.h"
#include "router/tools/client_parser.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

using enum Handling;

constexpr FieldHandling kResponsesFields[] = {
    {"frequency_penalty"},
    {"include"},
    {"input"},
    {"instructions"},
    {"max_output_tokens"},
    {"metadata"},
    {"model"},
    {"parallel_tool_calls"},
    {"presence_penalty"},
    {"prompt_cache_key"},
    {"reasoning"},
    {"safety_identifier"},
    {"stream"},
    {"temperature"},
    {"text"},
    {"tool_choice"},
    {"tools"},
    {"top_logprobs"},
    {"top_p"},
    {"user"},
    {"access_programs", kTolerated},
    {"context_management", kTolerated},
    {"image", kTolerated},
    {"max_tool_calls", kTolerated},
    {"moderation", kTolerated},
    {"prompt_cache_options", kTolerated},
    {"prompt_cache_retention", kTolerated},
    {"service_tier", kTolerated},
    {"store", kTolerated},
    {"stream_options", kTolerated},
    {"background", kRefused, "false"},
    {"conversation", kRefused},
    {"n", kRefused, "1"},
    {"previous_response_id", kRefused},
    {"prompt", kRefused},
    {"truncation", kRefused, "\"disabled\""},
};

// The log probabilities come only if `include` asks for them.
void ReadLogprobs(JsonFields& fields, v1::SamplingParams& params) {
  const auto top = fields.Integer("top_logprobs", 0, kMaxLogprobs);
  const Json* const include = fields.Array("include");
  for (size_t i = 0; include != nullptr && i < include->size(); ++i) {
    if (!(*include)[i].is_string()) {
      return fields.Fail(absl::StrCat("include[", i, "]"), "must be a string");
    }
    if ((*include)[i] == "message.output_text.logprobs") {
      params.set_logprobs(static_cast<int32_t>(top.value_or(0)));
    }
  }
}

// Bounds, as OpenAI has them, of values that the answer repeats in every event with the whole
// response.
constexpr size_t kMaxPairs = 16;         // pairs of metadata
constexpr size_t kMaxKeyLength = 64;     // characters in a key of metadata
constexpr size_t kMaxValueLength = 512;  // characters in a value of metadata and in an identifier
// Bytes of tool_choice as compact JSON: room for allowed_tools with kMaxTools functions, whose
// names OpenAI limits to 64 characters.
constexpr size_t kMaxToolChoiceBytes = size_t{64} << 10;

size_t CharactersOf(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

void CheckMetadata(JsonFields& fields) {
  const Json* const metadata = fields.Object("metadata");
  if (metadata == nullptr) return;
  if (metadata->size() > kMaxPairs) {
    return fields.Fail("metadata", absl::StrCat("has more than ", kMaxPairs, " pairs"));
  }
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) return fields.Fail("metadata", "must have strings as its values");
    if (CharactersOf(key) > kMaxKeyLength) {
      return fields.Fail("metadata",
                         absl::StrCat("has a key of more than ", kMaxKeyLength, " characters"));
    }
    if (CharactersOf(value.get_ref<const std::string&>()) > kMaxValueLength) {
      return fields.Fail("metadata",
                         absl::StrCat("has a value of more than ", kMaxValueLength, " characters"));
    }
  }
}

void CheckIdentifiers(JsonFields& fields) {
  for (const char* name : {"prompt_cache_key", "safety_identifier"}) {
    const std::optional<std::string> identifier = fields.String(name);
    if (identifier.has_value() && CharactersOf(*identifier) > kMaxValueLength) {
      fields.Fail(name, absl::StrCat("has more than ", kMaxValueLength, " characters"));
    }
  }
}

void CheckToolChoice(JsonFields& fields) {
  const Json* const choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  if (const size_t bytes = DumpJson(*choice).size(); bytes > kMaxToolChoiceBytes) {
    fields.Fail("tool_choice",
                absl::StrCat("has ", bytes, " bytes of JSON, at most ", kMaxToolChoiceBytes,
                             " are allowed; name functions by type and name alone"));
  }
}

void ReadText(JsonFields& fields, v1::GenerateRequest& request) {
  const Json* const text = fields.Object("text");
  if (text == nullptr) return;
  JsonFields inner(*text, fields.PathOf("text"));
  if (const Json* const format = inner.Object("format")) {
    JsonFields typed(*format, inner.PathOf("format"));
    ReadTypedForm(typed, /*schema_is_inside=*/false, request);
    inner.Adopt(typed.status());
  }
  fields.Adopt(inner.status());
}

// Reads the request alone, and its tools into `tools`.
absl::StatusOr<v1::GenerateRequest> ReadPrompt(const Json& body, const ApiContext& context,
                                               ToolTable& tools) {
  JsonFields fields(body);
  RefuseFields(kResponsesFields, fields);
  v1::GenerateRequest request;
  v1::SamplingParams& params = *request.mutable_sampling_params();
  ReadResponsesInput(fields, *request.mutable_chat(), tools);
  ReadTemplateFields(fields, *request.mutable_chat());
  ReadReasoning(fields, "reasoning", *request.mutable_chat());
  ReadSamplingFields(fields, params);
  ReadRoutingFields(fields, context, request);
  if (const auto most =
          fields.Integer("max_output_tokens", 1, std::numeric_limits<int32_t>::max())) {
    params.set_max_tokens(static_cast<uint32_t>(*most));
  }
  ReadLogprobs(fields, params);
  ReadText(fields, request);
  ReadFormFields(fields, request);
  CheckMetadata(fields);
  CheckIdentifiers(fields);
  CheckToolChoice(fields);
  request.set_stream(fields.Bool("stream").value_or(false));
  BATON_RETURN_IF_ERROR(fields.status());
  return request;
}

}  // namespace

absl::Span<const FieldHandling> ResponsesFields() { return kResponsesFields; }

absl::StatusOr<v1::GenerateRequest> ReadResponsesPrompt(const Json& body,
                                                        const ApiContext& context) {
  ToolTable tools;
  return ReadPrompt(body, context, tools);
}

absl::StatusOr<ApiRequest> ReadResponsesRequest(absl::string_view body, const ApiContext& context) {
  BATON_ASSIGN_OR_RETURN(const Json json, ParseJsonBody(body));
  const auto tools = std::make_shared<ToolTable>();
  BATON_ASSIGN_OR_RETURN(v1::GenerateRequest request, ReadPrompt(json, context, *tools));
  LeaveMarkers(context.tool_form, request);
  ApiRequest result{.stream = request.stream(), .warning = tools->Warning()};
  result.format =
      std::make_unique<ResponsesFormat>(NewResponse(json, context), request.stream(),
                                        ForClient(ParserOf(context, request.chat()), tools));
  result.prompts.push_back(std::move(request));
  return result;
}

ApiError InResponsesWords(ApiError error) {
  constexpr RenamedParam kRenamed[] = {{"messages", "input"},
                                       {"max_tokens", "max_output_tokens"},
                                       {"logprobs", "top_logprobs"},
                                       {"response_format", "text.format"}};
  return WithRenamedParam(std::move(error), kRenamed);
}

}  // namespace baton
