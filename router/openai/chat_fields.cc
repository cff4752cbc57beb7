#include "router/openai/chat_fields.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/rpc/limits.h"
#include "router/openai/call_arguments.h"
#include "router/openai/common_fields.h"
#include "router/openai/reasoning_fields.h"
#include "router/openai/tool_fields.h"
#include "router/tools/custom_input.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct Role {
  const char* name;
  const char* of_template;
  bool needs_content;
};
constexpr Role kRoles[] = {
    {"system", "system", true}, {"developer", "system", true},     {"user", "user", true},
    {"tool", "tool", false},    {"assistant", "assistant", false}, {"function", "tool", false},
};

// {"name", "arguments"}
void ReadFunctionCall(JsonFields& function, v1::ToolCall& result) {
  result.set_name(ReadCallName(function));
  result.set_arguments(ReadArguments(function, "arguments"));
}

// {"id", "type": "function", "function": {"name", "arguments"}}, or {"id", "type": "custom",
// "custom": {"name", "input"}}
void ReadCall(JsonFields& call, v1::ToolCall& result) {
  result.set_id(call.String("id").value_or(""));
  const std::string type = call.String("type").value_or("function");
  if (type != "function" && type != "custom") {
    return call.FailUnserved("type", "function or custom");
  }
  const Json* const object = call.Object(type);
  if (object == nullptr) return call.Fail(type, "is missing");
  JsonFields fields(*object, call.PathOf(type));
  if (type == "function") {
    ReadFunctionCall(fields, result);
  } else {
    result.set_name(ReadCallName(fields));
    result.set_arguments(CustomArguments(fields.RequiredString("input")));
  }
  call.Adopt(fields.status());
}

void ReadCalls(JsonFields& message, v1::ChatMessage& result) {
  const Json* const calls = message.Array("tool_calls");
  for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    const std::string name = absl::StrCat("tool_calls[", i, "]");
    if (!(*calls)[i].is_object()) return message.Fail(name, "must be an object");
    JsonFields call((*calls)[i], message.PathOf(name));
    ReadCall(call, *result.add_tool_calls());
    message.Adopt(call.status());
  }
  if (const Json* const old = message.Object("function_call")) {
    JsonFields function(*old, message.PathOf("function_call"));
    ReadFunctionCall(function, *result.add_tool_calls());
    message.Adopt(function.status());
  }
}

v1::ChatMessage ReadMessage(JsonFields& message) {
  v1::ChatMessage result;
  const std::string name = message.String("role").value_or("");
  const auto* const role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                        [&](const Role& known) { return name == known.name; });
  if (role == std::end(kRoles)) {
    message.Fail("role", "must be system, developer, user, assistant, tool or function");
    return result;
  }
  result.set_role(role->of_template);
  if (role->needs_content && message.Find("content") == nullptr) {
    message.Fail("content", "is missing");
  }
  result.set_content(ReadContent(message, "content"));
  result.set_name(message.String("name").value_or(""));
  result.set_tool_call_id(message.String("tool_call_id").value_or(""));
  const std::string reasoning = message.String("reasoning").value_or("");
  result.set_reasoning_content(message.String("reasoning_content").value_or(reasoning));
  ReadCalls(message, result);
  return result;
}

void ToValue(const Json& json, google::protobuf::Value& value) {
  if (json.is_object()) {
    ToStruct(json, *value.mutable_struct_value());
  } else if (json.is_array()) {
    value.mutable_list_value();
    for (const Json& element : json) ToValue(element, *value.mutable_list_value()->add_values());
  } else if (json.is_string()) {
    value.set_string_value(json.get<std::string>());
  } else if (json.is_boolean()) {
    value.set_bool_value(json.get<bool>());
  } else if (json.is_number()) {
    value.set_number_value(json.get<double>());
  } else {
    value.set_null_value(google::protobuf::NULL_VALUE);
  }
}

}  // namespace

std::string ReadContent(JsonFields& message, absl::string_view name) {
  const Json* const content = message.Find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    message.Fail(name, "must be a string or a list of parts");
    return "";
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string path = absl::StrCat(name, "[", i, "]");
    if (!(*content)[i].is_object()) {
      message.Fail(path, "must be an object");
      break;
    }
    JsonFields part((*content)[i], message.PathOf(path));
    const std::string type = part.String("type").value_or("");
    if (type == "text" || type == "refusal") {
      const std::optional<std::string> text = part.String(type);
      if (!text.has_value()) part.Fail(type, "is missing");
      texts.push_back(text.value_or(""));
    } else {
      part.FailUnserved("type", "text or refusal");
    }
    message.Adopt(part.status());
  }
  return absl::StrJoin(texts, "\n");
}

std::string ReadArguments(JsonFields& call, absl::string_view name) {
  const Json* const arguments = call.Find(name);
  if (arguments == nullptr) return "{}";
  return arguments->is_string() ? arguments->get<std::string>() : ArgumentsText(*arguments);
}

void ReadMessages(JsonFields& fields, v1::ChatInput& chat) {
  const Json* const messages = fields.Array("messages");
  if (messages == nullptr) return fields.Fail("messages", "is missing");
  if (messages->size() > static_cast<size_t>(kMaxChatMessages)) {
    return fields.Fail("messages", absl::StrCat("has ", messages->size(), " messages, at most ",
                                                kMaxChatMessages, " are allowed"));
  }
  for (size_t i = 0; i < messages->size() && fields.status().ok(); ++i) {
    const std::string name = absl::StrCat("messages[", i, "]");
    if (!(*messages)[i].is_object()) return fields.Fail(name, "must be an object");
    JsonFields message((*messages)[i], fields.PathOf(name));
    *chat.add_messages() = ReadMessage(message);
    fields.Adopt(message.status());
  }
}

void ReadTools(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  ReadToolList(fields, ToolStyle::kInside, chat, table);
  ReadFunctionList(fields, chat, table);
  RefuseHostedAlone(fields, chat, table);
  ReadToolChoice(fields, "function_call", ToolStyle::kInside, chat, table);
  ReadToolChoice(fields, "tool_choice", ToolStyle::kInside, chat, table);
  const bool parallel = fields.Bool("parallel_tool_calls").value_or(true);
  const bool old = fields.Find("functions") != nullptr;  // its answers have one call
  if (!parallel || old) chat.mutable_tool_choice()->set_single_call(true);
}

void ReadTemplateFields(JsonFields& fields, v1::ChatInput& chat) {
  fields.Refuse("continue_final_message", false);
  if (const auto add = fields.Bool("add_generation_prompt")) chat.set_add_generation_prompt(*add);
  if (const Json* const variables = fields.Object("chat_template_kwargs")) {
    ToStruct(*variables, *chat.mutable_chat_template_kwargs());
  }
  ReadEffort(fields, "reasoning_effort", chat);
}

void ToStruct(const Json& object, google::protobuf::Struct& result) {
  for (const auto& [name, value] : object.items()) {
    ToValue(value, (*result.mutable_fields())[name]);
  }
}

}  // namespace baton
