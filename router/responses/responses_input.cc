#include "router/responses/responses_input.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "router/openai/chat_fields.h"
#include "router/openai/tool_fields.h"
#include "router/tools/custom_input.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAssistant[] = "assistant";
constexpr char kSystem[] = "system";

// A string, or a list of parts of text.
std::string ReadTexts(JsonFields& item, absl::string_view name) {
  const Json* const content = item.Find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    item.Fail(name, "must be a string or a list of parts");
    return "";
  }
  constexpr const char* kTypes[] = {"input_text", "output_text", "text", "reasoning_text",
                                    "summary_text"};
  std::vector<std::string> texts;
  for (size_t i = 0; i < content->size(); ++i) {
    const std::string path = absl::StrCat(name, "[", i, "]");
    if (!(*content)[i].is_object()) {
      item.Fail(path, "must be an object");
      break;
    }
    JsonFields part((*content)[i], item.PathOf(path));
    const std::string type = part.String("type").value_or("");
    const bool text = std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
    if (text || type == "refusal") {
      texts.push_back(part.RequiredString(text ? "text" : "refusal"));
    } else {
      part.FailUnserved("type", "input_text, output_text or refusal");
    }
    item.Adopt(part.status());
  }
  return absl::StrJoin(texts, "\n");
}

// Whether items of this type describe a hosted tool's call or its result.
bool IsOfHostedTool(absl::string_view type) {
  return absl::EndsWith(type, "_call") || absl::EndsWith(type, "_call_output") ||
         absl::StartsWith(type, "mcp_") || absl::StartsWith(type, "tool_search_");
}

// Reads items in their order.
class ItemReader {
 public:
  ItemReader(v1::ChatInput& chat, ToolTable& table) : chat_(chat), table_(table) {}

  void Read(JsonFields& item) {
    const std::string type = item.String("type").value_or("message");
    if (type == "message") return ReadMessage(item);
    if (type == "function_call") return ReadCall(item);
    if (type == "custom_tool_call") return ReadCustomCall(item);
    if (type == "function_call_output" || type == "custom_tool_call_output") {
      return ReadOutput(item);
    }
    if (type == "reasoning") return ReadReasoning(item);
    if (IsOfHostedTool(type)) return LeaveOut(item, type);
    if (type == "item_reference") {
      return item.Fail("type", "is item_reference, which is not supported: no items are stored");
    }
    item.FailUnserved("type",
                      "message, reasoning, function_call, function_call_output, custom_tool_call "
                      "or custom_tool_call_output");
  }

 private:
  void ReadMessage(JsonFields& item) {
    constexpr std::pair<const char*, const char*> kRoles[] = {
        {"user", "user"}, {kSystem, kSystem}, {"developer", kSystem}, {kAssistant, kAssistant}};
    const std::string name = item.String("role").value_or("");
    const auto* const role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                          [&](const auto& known) { return name == known.first; });
    if (role == std::end(kRoles)) {
      return item.Fail("role", "must be user, assistant, system or developer");
    }
    if (item.Find("content") == nullptr) item.Fail("content", "is missing");
    const std::string text = ReadTexts(item, "content");
    const int count = chat_.messages_size();
    const bool follows_system = count > 0 && chat_.messages(count - 1).role() == kSystem;
    if (follows_system && absl::string_view(role->second) == kSystem) {
      absl::StrAppend(chat_.mutable_messages(count - 1)->mutable_content(), "\n\n", text);
      return;
    }
    v1::ChatMessage& message = Add(role->second);
    message.set_content(text);
    if (name == kAssistant) message.set_reasoning_content(reasoning_);
    reasoning_.clear();
  }

  void ReadCall(JsonFields& item) {
    v1::ToolCall& call = AddCall(item);
    call.set_arguments(ReadArguments(item, "arguments"));
  }

  void ReadCustomCall(JsonFields& item) {
    v1::ToolCall& call = AddCall(item);
    call.set_arguments(CustomArguments(item.RequiredString("input")));
  }

  v1::ToolCall& AddCall(JsonFields& item) {
    v1::ToolCall& call = *Assistant().add_tool_calls();
    call.set_id(ReadCallId(item, "call_id"));
    call.set_name(ReadCallName(item));
    return call;
  }

  void ReadOutput(JsonFields& item) {
    const std::string id = ReadCallId(item, "call_id");
    if (left_out_calls_.count(id) > 0) return;
    v1::ChatMessage& message = Add("tool");
    message.set_tool_call_id(id);
    if (item.Find("output") == nullptr) item.Fail("output", "is missing");
    message.set_content(ReadTexts(item, "output"));
  }

  void LeaveOut(JsonFields& item, const std::string& type) {
    table_.LeaveOut(type);
    if (const auto id = item.String("call_id")) left_out_calls_.insert(*id);
  }

  // The text itself, or else what stands for it.
  void ReadReasoning(JsonFields& item) {
    std::string text = ReadTexts(item, "content");
    if (text.empty()) text = ReadTexts(item, "summary");
    if (!reasoning_.empty() && !text.empty()) reasoning_ += "\n";
    reasoning_ += text;
  }

  // The message that a call belongs to: what the assistant has just said, or a new one.
  v1::ChatMessage& Assistant() {
    const int count = chat_.messages_size();
    const bool going_on = count > 0 && chat_.messages(count - 1).role() == kAssistant;
    v1::ChatMessage& message = going_on ? *chat_.mutable_messages(count - 1) : Add(kAssistant);
    if (!message.reasoning_content().empty() && !reasoning_.empty()) {
      message.mutable_reasoning_content()->append("\n");
    }
    message.mutable_reasoning_content()->append(std::exchange(reasoning_, {}));
    return message;
  }

  v1::ChatMessage& Add(const char* role) {
    v1::ChatMessage& message = *chat_.add_messages();
    message.set_role(role);
    return message;
  }

  v1::ChatInput& chat_;
  ToolTable& table_;
  std::string reasoning_;                 // reasoning of the next assistant message
  std::set<std::string> left_out_calls_;  // ids of hosted tools' calls
};

void ReadItems(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  if (const auto instructions = fields.String("instructions")) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(kSystem);
    message.set_content(*instructions);
  }
  const Json* const input = fields.Find("input");
  if (input == nullptr) return fields.Fail("input", "is missing");
  if (input->is_string()) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role("user");
    message.set_content(input->get<std::string>());
    return;
  }
  if (!input->is_array()) return fields.Fail("input", "must be a string or a list of items");
  ItemReader reader(chat, table);
  for (size_t i = 0; i < input->size() && fields.status().ok(); ++i) {
    const std::string path = absl::StrCat("input[", i, "]");
    if (!(*input)[i].is_object()) return fields.Fail(path, "must be an object");
    JsonFields item((*input)[i], fields.PathOf(path));
    reader.Read(item);
    fields.Adopt(item.status());
  }
}

}  // namespace

void ReadResponsesInput(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  ReadItems(fields, chat, table);
  ReadToolList(fields, ToolStyle::kBeside, chat, table);
  RefuseHostedAlone(fields, chat, table);
  ReadToolChoice(fields, "tool_choice", ToolStyle::kBeside, chat, table);
  if (!fields.Bool("parallel_tool_calls").value_or(true)) {
    chat.mutable_tool_choice()->set_single_call(true);
  }
}

}  // namespace baton
