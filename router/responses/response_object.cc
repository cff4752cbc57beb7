#include "router/responses/response_object.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

const Json* Find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The field as the client sent it, or `otherwise`.
Json Echo(const Json& object, const char* name, Json otherwise = nullptr) {
  const Json* const value = Find(object, name);
  return value == nullptr ? std::move(otherwise) : *value;
}

// The same of a field that nobody else reads: null where it is not short, since each event that has
// the whole response tells it again.
Json EchoShort(const Json& object, const char* name, Json otherwise = nullptr) {
  constexpr size_t kMaxBytes = 512;
  Json value = Echo(object, name, std::move(otherwise));
  const bool is_long = value.is_string() && value.get_ref<const std::string&>().size() > kMaxBytes;
  return value.is_structured() || is_long ? Json() : value;
}

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

Json ToolsOf(const Json& body) {
  Json result = Json::array();
  for (const Json& tool : Echo(body, "tools", Json::array())) {
    result.push_back({{"type", "function"},
                      {"name", tool.at("name")},
                      {"description", Echo(tool, "description")},
                      {"parameters", Echo(tool, "parameters")},
                      {"strict", EchoShort(tool, "strict")}});
  }
  return result;
}

}  // namespace

Json NewResponse(const Json& body, const ApiContext& context) {
  const Json reasoning = Echo(body, "reasoning", Json::object());
  return {
      {"id", absl::StrCat("resp_", context.request_id)},
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
      {"temperature", Echo(body, "temperature", 1)},
      {"text", TextOf(body)},
      {"tool_choice", Echo(body, "tool_choice", "auto")},
      {"tools", ToolsOf(body)},
      {"top_logprobs", Echo(body, "top_logprobs", 0)},
      {"top_p", Echo(body, "top_p", 1)},
      {"truncation", "disabled"},
      {"usage", nullptr},
      {"user", Echo(body, "user")},
  };
}

std::string OutputItemId(const AnswerBlock& block, const std::string& request_id, size_t index) {
  switch (block.kind) {
    case AnswerBlock::Kind::kCall:
      return absl::StrCat("fc_", block.id);
    case AnswerBlock::Kind::kReasoning:
      return absl::StrCat("rs_", request_id, "_", index);
    case AnswerBlock::Kind::kText:
      break;
  }
  return absl::StrCat("msg_", request_id, "_", index);
}

Json OutputItem(const AnswerBlock& block, const std::string& request_id, size_t index,
                const std::string& status) {
  const bool begins = status == "in_progress";
  const Json id = OutputItemId(block, request_id, index);
  const auto content = [&] {  // of the kinds that have any
    return begins ? Json::array() : Json::array({ContentPart(block)});
  };
  switch (block.kind) {
    case AnswerBlock::Kind::kCall:
      return {{"id", id},           {"type", "function_call"},
              {"status", status},   {"call_id", absl::StrCat("call_", block.id)},
              {"name", block.name}, {"arguments", begins ? "" : block.text}};
    case AnswerBlock::Kind::kReasoning:
      return {{"id", id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", Json::array()},
              {"content", content()}};
    case AnswerBlock::Kind::kText:
      break;
  }
  return {{"id", id},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", content()}};
}

Json ContentPart(const AnswerBlock& block) {
  if (block.kind == AnswerBlock::Kind::kReasoning) {
    return {{"type", "reasoning_text"}, {"text", block.text}};
  }
  return {{"type", "output_text"},
          {"annotations", Json::array()},
          {"logprobs", LogprobList(block.logprobs)},
          {"text", block.text}};
}

Json LogprobList(const std::vector<v1::TokenLogprob>& logprobs) {
  Json result = Json::array();
  AppendChatLogprobs({logprobs.begin(), logprobs.end()}, result);
  return result;
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
