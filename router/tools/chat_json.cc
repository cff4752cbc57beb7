#include "router/tools/chat_json.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/jinja/json_source.h"
#include "common/json/json_tree.h"
#include "common/protocol/validate_chat.h"
#include "router/tools/call_id.h"
#include "router/tools/invalid_arguments.h"
#include "router/tools/message_places.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMistralIdBytes = 9;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The schema of a tool's arguments; any object if there is none.
Json ParametersOf(const v1::Tool& tool) {
  Json schema = ParseOrderedJson(tool.parameters());
  if (schema.is_object()) return schema;
  return {{"type", "object"}, {"properties", Json::object()}};
}

Json FunctionOf(const v1::Tool& tool) {
  return {{"name", tool.name()},
          {"description", tool.description()},
          {"parameters", ParametersOf(tool)}};
}

Json ToolsOf(const v1::ChatInput& chat) {
  Json tools = Json::array();
  for (const v1::Tool& tool : chat.tools()) {
    tools.push_back({{"type", "function"}, {"function", FunctionOf(tool)}});
  }
  return tools;
}

// The arguments as the object that they are, or else as their text. Clients write null for none.
Json ArgumentsOf(const v1::ToolCall& call) {
  if (absl::StripAsciiWhitespace(call.arguments()).empty()) return Json::object();
  Json arguments = ParseOrderedJson(call.arguments());
  if (arguments.is_null()) return Json::object();
  return arguments.is_object() ? arguments : Json(call.arguments());
}

// An object in the place of arguments that are none.
Json ObjectFor(const std::string& arguments) {
  const Json json = ParseOrderedJson(arguments);
  const std::string* const text = json.get_ptr<const std::string*>();
  const bool is_none = (json.is_array() && json.empty()) || (text != nullptr && text->empty());
  if (is_none) return Json::object();
  return {{kInvalidArguments, arguments}};
}

// [{"name": ..., "arguments": {...}}, ...] with the white space of a forced call. Arguments keep
// their bytes.
std::string CallsText(const v1::ChatMessage& message) {
  std::string text = "[";
  for (const v1::ToolCall& call : message.tool_calls()) {
    const Json arguments = ArgumentsOf(call);
    const bool is_object = arguments.is_object() && !arguments.empty();
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", R"({"name": )", Text(call.name()),
                    R"(, "arguments": )", is_object ? call.arguments() : Text(arguments), "}");
  }
  return text + "]";
}

std::string IdFor(ToolFormKind kind, const std::string& id) {
  if (kind != ToolFormKind::kMistral && kind != ToolFormKind::kMistralV13) return id;
  const bool fits = id.size() == kMistralIdBytes &&
                    std::all_of(id.begin(), id.end(),
                                [](unsigned char byte) { return absl::ascii_isalnum(byte); });
  return fits ? id : ShortId(id, kMistralIdBytes);
}

// The tools that calls so far were for, by the calls' ids: results seldom name theirs.
using NamesOfIds = std::map<std::string, std::string>;

std::string NameOf(const v1::ChatMessage& message, const NamesOfIds& names) {
  if (!message.name().empty()) return message.name();
  const auto known = names.find(message.tool_call_id());
  return known == names.end() ? "" : known->second;
}

Json CallsOf(const v1::ChatMessage& message, const ChatShape& shape) {
  Json calls = Json::array();
  for (const v1::ToolCall& call : message.tool_calls()) {
    Json arguments = ArgumentsOf(call);
    if (arguments.is_object() && !arguments.empty()) {
      // Its bytes are the model's own, and a worker may hold them.
      Json& bytes = shape.text_arguments ? arguments : arguments[kJsonSourceKey];
      bytes = call.arguments();
    } else if (shape.text_arguments && arguments.is_object()) {
      arguments = "{}";
    } else if (!shape.takes_text && !arguments.is_object()) {
      arguments = ObjectFor(call.arguments());
    }
    calls.push_back({{"id", IdFor(shape.kind, call.id())},
                     {"type", "function"},
                     {"function", {{"name", call.name()}, {"arguments", std::move(arguments)}}}});
  }
  return calls;
}

Json MessageOf(const v1::ChatMessage& message, const ChatShape& shape, const NamesOfIds& names) {
  Json json = {{"role", message.role()}, {"content", message.content()}};
  if (const std::string name = NameOf(message, names); !name.empty()) json["name"] = name;
  if (!message.tool_call_id().empty()) {
    json["tool_call_id"] = IdFor(shape.kind, message.tool_call_id());
  }
  if (!message.reasoning_content().empty()) {
    json["reasoning_content"] = message.reasoning_content();
    if (shape.kind == ToolFormKind::kHarmony) json["thinking"] = message.reasoning_content();
  }
  if (message.tool_calls().empty()) return json;
  if (shape.kind == ToolFormKind::kPhi4 || shape.kind == ToolFormKind::kGranite) {
    // Their templates render the content alone.
    json["content"] = absl::StrCat(message.content(), "<|tool_call|>", CallsText(message),
                                   shape.kind == ToolFormKind::kPhi4 ? "<|/tool_call|>" : "");
  } else {
    json["tool_calls"] = CallsOf(message, shape);
  }
  return json;
}

// Puts `text` into the system message, or the first one where there may be none.
void AddSystemText(const std::string& text, bool has_system, Json& messages) {
  const bool is_first = !messages.empty() && (messages[0]["role"] == "system" ||
                                              messages[0]["role"] == "developer" || !has_system);
  if (!is_first) {
    messages.insert(messages.begin(),
                    Json{{"role", has_system ? "system" : "user"}, {"content", text}});
    return;
  }
  const std::string content = messages[0]["content"].get<std::string>();
  const bool is_system = messages[0]["role"] != "user";
  messages[0]["content"] = is_system && !content.empty() ? absl::StrCat(content, "\n\n", text)
                           : content.empty()             ? text
                                                         : absl::StrCat(text, "\n\n", content);
}

// A message without calls and results, which the template may not know.
void AppendGeneric(const v1::ChatMessage& message, const ChatShape& shape, const NamesOfIds& names,
                   Json& messages) {
  if (message.role() == "tool") {
    Json result = {{"name", NameOf(message, names)}, {"content", message.content()}};
    if (!message.tool_call_id().empty()) result["tool_call_id"] = message.tool_call_id();
    messages.push_back({{"role", "tool"}, {"content", Text({{"tool_response", result}})}});
  } else {
    messages.push_back(MessageOf(message, shape, names));
  }
  Json& last = messages.back();
  if (!message.tool_calls().empty()) {
    last.erase("tool_calls");
    last["content"] = absl::StrCat(message.content(), message.content().empty() ? "" : "\n",
                                   "{\"tool_calls\": ", CallsText(message), "}");
  }
}

// Results become messages of the user. Results and what the user says next become one message:
// many templates want the user and the assistant to take turns.
void JoinResults(Json& messages) {
  Json joined = Json::array();
  bool after_result = false;
  for (Json& message : messages) {
    const bool is_result = message["role"] == "tool";
    if (is_result) message["role"] = "user";
    if (after_result && message["role"] == "user") {
      absl::StrAppend(&joined.back()["content"].get_ref<std::string&>(), "\n",
                      message["content"].get_ref<const std::string&>());
    } else {
      joined.push_back(std::move(message));
    }
    after_result = is_result;
  }
  messages = std::move(joined);
}

}  // namespace

std::string GenericToolsText(const v1::ChatInput& chat) {
  std::string text = "You can call tools. Each line describes one as JSON:\n";
  for (const v1::Tool& tool : chat.tools()) {
    absl::StrAppend(&text, Text(FunctionOf(tool)), "\n");
  }
  absl::StrAppend(&text,
                  "\nTo call tools, write nothing but JSON of this form, with the arguments that "
                  "the tool's parameters describe:\n"
                  R"({"tool_calls": [{"name": "the tool's name", "arguments": {}}]})"
                  "\nThe results come as JSON with \"tool_response\". ");
  absl::StrAppend(&text, IsHeldToCalls(chat.tool_choice())
                             ? "Answer with a call now."
                             : "Without need of a tool, answer as usual.");
  return text;
}

ChatJson ChatJsonOf(const v1::ChatInput& chat, const ChatShape& shape) {
  ChatJson json{.messages = Json::array(), .tools = nullptr};
  const bool is_generic = shape.kind == ToolFormKind::kGeneric;
  NamesOfIds names;
  for (const v1::ChatMessage& message : chat.messages()) {
    if (is_generic) {
      AppendGeneric(message, shape, names, json.messages);
    } else {
      json.messages.push_back(MessageOf(message, shape, names));
    }
    for (const v1::ToolCall& call : message.tool_calls()) names[call.id()] = call.name();
  }
  const bool uses_tools = UsesTools(chat);
  ChatShape placed = shape;
  if (uses_tools && !shape.has_system_with_tools) placed.has_system = false;
  PlaceMessages(placed, json.messages);
  if (is_generic) JoinResults(json.messages);
  if (!uses_tools) return json;
  if (is_generic) {
    AddSystemText(GenericToolsText(chat), placed.has_system, json.messages);
  } else if (shape.kind == ToolFormKind::kPhi4) {
    // Its template reads the tools from the system message.
    const bool has_system = !json.messages.empty() && json.messages[0]["role"] == "system";
    if (!has_system)
      AddSystemText("You are a helpful assistant with some tools.", true, json.messages);
    Json functions = Json::array();
    for (const v1::Tool& tool : chat.tools()) functions.push_back(FunctionOf(tool));
    json.messages[0]["tools"] = Text(functions);
  } else {
    json.tools = ToolsOf(chat);
  }
  return json;
}

}  // namespace baton
