#include "router/responses/response_object.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/protocol/sampling_defaults.h"
#include "router/openai/common_fields.h"
#include "router/openai/logprobs_json.h"
#include "router/responses/shared_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

const Json* Find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The field as the client sent it, or `otherwise`.
Json Echo(const Json& object, const char* name, const Json& otherwise = nullptr) {
  const Json* const value = Find(object, name);
  return value == nullptr ? otherwise : *value;
}

// The same for a field that is only repeated: null if it is not short, since each event that has
// the whole response repeats it.
Json EchoShort(const Json& object, const char* name, const Json& otherwise = nullptr) {
  constexpr size_t kMaxBytes = 512;
  Json value = Echo(object, name, otherwise);
  const bool is_long = value.is_string() && value.get_ref<const std::string&>().size() > kMaxBytes;
  return value.is_structured() || is_long ? Json() : value;
}

// The number as people write it: 0.7, where a float's exact value is 0.699999988079071.
Json Written(float number) { return Json::parse(absl::StrCat(number)); }

Json TextOf(const Json& body) {
  const Json text = Echo(body, "text", Json::object());
  const Json format = Echo(text, "format", {{"type", "text"}});
  Json result = {{"format", {{"type", format.at("type")}}}};
  if (format.at("type") == "json_schema") {
    result["format"].update({{"name", EchoShort(format, "name", "schema")},
                             {"description", EchoShort(format, "description")},
                             {"schema", Echo(format, "schema", Json::object())},
                             {"strict", EchoShort(format, "strict", false)}});
  }
  if (Find(text, "verbosity") != nullptr) result["verbosity"] = EchoShort(text, "verbosity");
  return result;
}

// Returns the tools of `object`, the body or a namespace, without those that were left out.
Json ToolsIn(const Json& object, bool is_namespace) {
  Json result = Json::array();
  const Json tools = Echo(object, "tools", Json::array());
  for (const Json& tool : tools) {
    const Json type = Echo(tool, "type", "function");
    Json told = {
        {"type", type}, {"name", Echo(tool, "name")}, {"description", Echo(tool, "description")}};
    if (type == "function") {
      told["parameters"] = Echo(tool, "parameters");
      told["strict"] = EchoShort(tool, "strict");
    } else if (type == "custom") {
      told["format"] = Echo(tool, "format", {{"type", "text"}});
    } else if (type == "namespace" && !is_namespace) {
      told["tools"] = ToolsIn(tool, /*is_namespace=*/true);
    } else {
      continue;
    }
    result.push_back(std::move(told));
  }
  return result;
}

}  // namespace

Json NewResponse(const Json& body, const ApiContext& context) {
  const Json reasoning = Echo(body, "reasoning", Json::object());
  v1::SamplingParams sampling = context.default_sampling;
  FillTemperatureAndTopP({}, sampling);
  return {
      {"id", absl::StrCat("resp_", context.answer_id)},
      {"object", "response"},
      {"created_at", context.created},
      {"status", "in_progress"},
      {"background", false},
      {"completed_at", nullptr},
      {"error", nullptr},
      {"frequency_penalty", Echo(body, "frequency_penalty", 0)},
      {"incomplete_details", nullptr},
      {"instructions", Echo(body, "instructions")},
      {"max_output_tokens", Echo(body, "max_output_tokens")},
      {"max_tool_calls", EchoShort(body, "max_tool_calls")},
      {"metadata", Echo(body, "metadata", Json::object())},
      {"model", context.model},
      {"output", Json::array()},
      {"parallel_tool_calls", Echo(body, "parallel_tool_calls", true)},
      {"presence_penalty", Echo(body, "presence_penalty", 0)},
      {"previous_response_id", nullptr},
      {"prompt_cache_key", Echo(body, "prompt_cache_key")},
      {"reasoning", {{"effort", EchoShort(reasoning, "effort")}, {"summary", nullptr}}},
      {"safety_identifier", Echo(body, "safety_identifier")},
      {"service_tier", "default"},
      {"store", false},
      {"temperature", Echo(body, "temperature", Written(sampling.temperature()))},
      {"text", TextOf(body)},
      {"tool_choice", Echo(body, "tool_choice", "auto")},
      {"tools", ToolsIn(body, /*is_namespace=*/false)},
      {"top_logprobs", Echo(body, "top_logprobs", 0)},
      {"top_p", Echo(body, "top_p", Written(sampling.top_p()))},
      {"truncation", "disabled"},
      {"usage", nullptr},
      {"user", Echo(body, "user")},
  };
}

std::string OutputItemId(const AnswerBlock& block, const std::string& answer_id, size_t index) {
  switch (block.kind) {
    case AnswerBlock::Kind::kCall:
      return absl::StrCat(block.is_custom ? "ctc_" : "fc_", block.id);
    case AnswerBlock::Kind::kReasoning:
      return absl::StrCat("rs_", answer_id, "_", index);
    case AnswerBlock::Kind::kText:
      break;
  }
  return absl::StrCat("msg_", answer_id, "_", index);
}

absl::Cord OutputItem(const AnswerBlock& block, const ItemContent& content,
                      const std::string& answer_id, size_t index, const std::string& status) {
  const bool begins = status == "in_progress";
  SharedObject item;
  item.Set("id", OutputItemId(block, answer_id, index));
  const auto set_content = [&] {  // only some kinds have content
    item.Set("content",
             begins ? absl::Cord("[]") : Enclosed("[", ContentPart(block.kind, content), "]"));
  };
  switch (block.kind) {
    case AnswerBlock::Kind::kCall:
      item.Set("type", block.is_custom ? "custom_tool_call" : "function_call");
      item.Set("status", status);
      item.Set("call_id", absl::StrCat("call_", block.id));
      item.Set("name", block.name);
      if (!block.space.empty()) item.Set("namespace", block.space);
      item.Set(block.is_custom ? "input" : "arguments",
               begins ? absl::Cord("\"\"") : Enclosed("\"", content.text, "\""));
      break;
    case AnswerBlock::Kind::kReasoning:
      item.Set("type", "reasoning");
      item.Set("status", status);
      item.Set("summary", Json::array());
      set_content();
      break;
    case AnswerBlock::Kind::kText:
      item.Set("type", "message");
      item.Set("status", status);
      item.Set("role", "assistant");
      set_content();
      break;
  }
  return item.Text();
}

absl::Cord ContentPart(AnswerBlock::Kind kind, const ItemContent& content) {
  SharedObject part;
  if (kind == AnswerBlock::Kind::kReasoning) {
    part.Set("type", "reasoning_text");
  } else {
    part.Set("type", "output_text");
    part.Set("annotations", Json::array());
    part.Set("logprobs", Enclosed("[", content.logprobs, "]"));
  }
  part.Set("text", Enclosed("\"", content.text, "\""));
  return part.Text();
}

std::string LogprobTexts(const std::vector<v1::TokenLogprob>& logprobs) {
  if (logprobs.empty()) return "";
  Json list = Json::array();
  AppendChatLogprobs({logprobs.begin(), logprobs.end()}, list);
  const std::string text = DumpJson(list);
  return text.substr(1, text.size() - 2);
}

Json ResponseUsage(const v1::Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens()},
          {"input_tokens_details",
           {{"cached_tokens", usage.cached_tokens()}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens()},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.total_tokens()}};
}

}  // namespace baton
