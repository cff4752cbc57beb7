#include "router/openai/chat_fields.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/rpc/limits.h"
#include "router/openai/common_fields.h"

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

// {"id", "type": "function", "function": {"name", "arguments"}}
void ReadCall(JsonFields& call, v1::ToolCall& result) {
  result.set_id(call.String("id").value_or(""));
  if (call.String("type").value_or("function") != "function") {
    return call.Fail("type", "must be function");
  }
  const Json* const function = call.Object("function");
  if (function == nullptr) return call.Fail("function", "is missing");
  JsonFields fields(*function, call.PathOf("function"));
  result.set_name(fields.String("name").value_or(""));
  if (result.name().empty()) fields.Fail("name", "is missing");
  const Json* const arguments = fields.Find("arguments");
  // OpenAI's are JSON in a string; some clients send the object itself.
  if (arguments != nullptr && arguments->is_object()) {
    result.set_arguments(DumpJson(*arguments));
  } else {
    result.set_arguments(fields.String("arguments").value_or("{}"));
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
    const Json call = {{"function", *old}};
    JsonFields fields(call, message.PathOf("function_call"));
    ReadCall(fields, *result.add_tool_calls());
    message.Adopt(fields.status());
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

void ReadToolList(JsonFields& fields, v1::ChatInput& chat) {
  const Json* const tools = fields.Array("tools");
  for (size_t i = 0; tools != nullptr && i < tools->size(); ++i) {
    const std::string name = absl::StrCat("tools[", i, "]");
    if (!(*tools)[i].is_object()) return fields.Fail(name, "must be an object");
    JsonFields tool((*tools)[i], fields.PathOf(name));
    const Json* const function = tool.Object("function");
    if (tool.String("type").value_or("") != "function") {
      tool.Fail("type", "must be function");
    } else if (function == nullptr) {
      tool.Fail("function", "is missing");
    } else {
      JsonFields inner(*function, tool.PathOf("function"));
      *chat.add_tools() = ReadFunction(inner);
      tool.Adopt(inner.status());
    }
    fields.Adopt(tool.status());
  }
  const Json* const functions = fields.Array("functions");
  for (size_t i = 0; functions != nullptr && i < functions->size(); ++i) {
    const std::string name = absl::StrCat("functions[", i, "]");
    if (!(*functions)[i].is_object()) return fields.Fail(name, "must be an object");
    JsonFields function((*functions)[i], fields.PathOf(name));
    *chat.add_tools() = ReadFunction(function);
    fields.Adopt(function.status());
  }
}

bool ReadMode(const std::string& name, v1::ToolChoice& choice) {
  const std::pair<const char*, v1::ToolChoice::Mode> modes[] = {
      {"auto", v1::ToolChoice::MODE_AUTO},
      {"none", v1::ToolChoice::MODE_NONE},
      {"required", v1::ToolChoice::MODE_REQUIRED},
  };
  for (const auto& [known, mode] : modes) {
    if (name != known) continue;
    choice.set_mode(mode);
    return true;
  }
  return false;
}

// The name in {"function": {"name"}} or, in the old form, {"name"}.
void ReadNamed(JsonFields& choice, v1::ChatInput& chat) {
  const Json* const function = choice.Object("function");
  std::string name = choice.String("name").value_or("");
  if (function != nullptr) {
    JsonFields inner(*function, choice.PathOf("function"));
    name = inner.String("name").value_or("");
    choice.Adopt(inner.status());
  }
  if (name.empty()) return choice.Fail("function.name", "is missing");
  chat.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NAMED);
  chat.mutable_tool_choice()->set_name(name);
}

// {"mode": "auto" | "required", "tools": [{"type": "function", "function": {"name"}}]}
void ReadAllowed(JsonFields& choice, v1::ChatInput& chat) {
  const Json* const object = choice.Object("allowed_tools");
  if (object == nullptr) return choice.Fail("allowed_tools", "is missing");
  JsonFields allowed(*object, choice.PathOf("allowed_tools"));
  if (!ReadMode(allowed.String("mode").value_or(""), *chat.mutable_tool_choice())) {
    allowed.Fail("mode", "must be auto or required");
  }
  const Json* const list = allowed.Array("tools");
  v1::ChatInput kept;
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    v1::ChatInput named;
    JsonFields tool((*list)[i].is_object() ? (*list)[i] : *object,
                    allowed.PathOf(absl::StrCat("tools[", i, "]")));
    ReadNamed(tool, named);
    allowed.Adopt(tool.status());
    const auto found = std::find_if(
        chat.tools().begin(), chat.tools().end(),
        [&](const v1::Tool& known) { return known.name() == named.tool_choice().name(); });
    if (found == chat.tools().end()) {
      allowed.Fail("tools", "has a tool that is not among the request's");
    } else {
      *kept.add_tools() = *found;
    }
  }
  if (kept.tools().empty()) allowed.Fail("tools", "must not be empty");
  chat.mutable_tools()->Swap(kept.mutable_tools());
  choice.Adopt(allowed.status());
}

void ReadToolChoice(JsonFields& fields, const char* field, v1::ChatInput& chat) {
  const Json* const value = fields.Find(field);
  if (value == nullptr) return;
  v1::ToolChoice& choice = *chat.mutable_tool_choice();
  if (value->is_object()) {
    JsonFields object(*value, fields.PathOf(field));
    if (object.String("type").value_or("function") == "allowed_tools") {
      ReadAllowed(object, chat);
    } else if (object.String("type").value_or("function") == "function") {
      ReadNamed(object, chat);
    } else {
      object.Fail("type", "must be function or allowed_tools");
    }
    fields.Adopt(object.status());
  } else if (!value->is_string() || !ReadMode(value->get<std::string>(), choice)) {
    fields.Fail(field, "must be none, auto, required, or name a function");
  }
  const bool needs_tools =
      choice.mode() == v1::ToolChoice::MODE_REQUIRED || choice.mode() == v1::ToolChoice::MODE_NAMED;
  if (needs_tools && chat.tools().empty()) fields.Fail(field, "needs tools, and there are none");
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
      part.Fail("type", absl::StrCat("is ", DumpJson(type).substr(0, kMaxNameBytes),
                                     "; only parts of text are served"));
    }
    message.Adopt(part.status());
  }
  return absl::StrJoin(texts, "\n");
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

v1::Tool ReadFunction(JsonFields& function) {
  v1::Tool tool;
  tool.set_name(function.String("name").value_or(""));
  if (tool.name().empty()) function.Fail("name", "is missing");
  tool.set_description(function.String("description").value_or(""));
  if (const Json* const parameters = function.Object("parameters")) {
    tool.set_parameters(DumpJson(*parameters));
  }
  return tool;
}

void ReadTools(JsonFields& fields, v1::ChatInput& chat) {
  ReadToolList(fields, chat);
  ReadToolChoice(fields, "function_call", chat);
  ReadToolChoice(fields, "tool_choice", chat);
  const bool parallel = fields.Bool("parallel_tool_calls").value_or(true);
  const bool old = fields.Find("functions") != nullptr;  // whose answers have one call
  if (!parallel || old) chat.mutable_tool_choice()->set_single_call(true);
}

void ReadTemplateFields(JsonFields& fields, v1::ChatInput& chat) {
  fields.Refuse("continue_final_message", false);
  if (const auto add = fields.Bool("add_generation_prompt")) chat.set_add_generation_prompt(*add);
  if (const Json* const variables = fields.Object("chat_template_kwargs")) {
    ToStruct(*variables, *chat.mutable_chat_template_kwargs());
  }
}

void ToStruct(const Json& object, google::protobuf::Struct& result) {
  for (const auto& [name, value] : object.items()) {
    ToValue(value, (*result.mutable_fields())[name]);
  }
}

}  // namespace baton
