#include "router/anthropic/messages_input.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/protocol/tool_name.h"
#include "common/rpc/limits.h"
#include "router/openai/call_arguments.h"
#include "router/openai/common_fields.h"
#include "router/openai/tool_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAssistant[] = "assistant";
constexpr char kBillingLine[] = "x-anthropic-billing-header:";

// Calls `read` for each object of the list `name`.
void ForEachObject(JsonFields& fields, absl::string_view name, const Json& list,
                   const std::function<void(JsonFields&)>& read) {
  for (size_t i = 0; i < list.size() && fields.status().ok(); ++i) {
    const std::string path = absl::StrCat(name, "[", i, "]");
    if (!list[i].is_object()) return fields.Fail(path, "must be an object");
    JsonFields object(list[i], fields.PathOf(path));
    read(object);
    fields.Adopt(object.status());
  }
}

void Join(const std::string& text, std::string& result) {
  if (!result.empty() && !text.empty()) result += "\n";
  result += text;
}

// Returns the text of a block.
using ReadBlock = std::function<std::string(JsonFields& block)>;

std::string ReadText(JsonFields& block) {
  if (block.String("type").value_or("") == "text") return block.RequiredString("text");
  block.FailUnserved("type", "text");
  return "";
}

// A string, or a list of blocks that `read` reads.
std::string ReadTexts(JsonFields& fields, absl::string_view name,
                      const ReadBlock& read = ReadText) {
  const Json* const content = fields.Find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  std::string result;
  if (!content->is_array()) {
    fields.Fail(name, "must be a string or a list of blocks");
    return result;
  }
  ForEachObject(fields, name, *content, [&](JsonFields& block) { Join(read(block), result); });
  return result;
}

// The text of a document's source: {"type": "text", "data"} or {"type": "content", "content"}.
std::string ReadDocument(JsonFields& block) {
  const Json* const object = block.Object("source");
  if (object == nullptr) {
    block.Fail("source", "is missing");
    return "";
  }
  JsonFields source(*object, block.PathOf("source"));
  const std::string type = source.String("type").value_or("");
  std::string text;
  if (type == "text") {
    text = source.RequiredString("data");
  } else if (type == "content") {
    text = ReadTexts(source, "content");
  } else {
    source.FailUnserved("type", "text or content");
  }
  block.Adopt(source.status());
  return text;
}

// Title, source and text of a search result.
std::string ReadSearchResult(JsonFields& block) {
  std::string text = block.String("title").value_or("");
  Join(block.String("source").value_or(""), text);
  Join(ReadTexts(block, "content"), text);
  return text;
}

// A block of a tool's result. A reference to a tool is the tool's name.
std::string ReadResultBlock(JsonFields& block) {
  const std::string type = block.String("type").value_or("");
  if (type == "text") return block.RequiredString("text");
  if (type == "document") return ReadDocument(block);
  if (type == "search_result") return ReadSearchResult(block);
  if (type == "tool_reference") return block.RequiredString("tool_name");
  block.FailUnserved("type", "text, document, search_result or tool_reference");
  return "";
}

// Whether blocks of this type describe a hosted tool's call or its result.
bool IsOfHostedTool(absl::string_view type) {
  return absl::EndsWith(type, "_tool_use") || absl::EndsWith(type, "_tool_result");
}

void ReadSystem(JsonFields& fields, v1::ChatInput& chat) {
  if (fields.Find("system") == nullptr) return;
  std::string text = ReadTexts(fields, "system");
  if (absl::StartsWith(text, kBillingLine)) {
    const size_t end = text.find('\n');
    text.erase(0, end == std::string::npos ? end : end + 1);
  }
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("system");
  message.set_content(text);
}

// Reads the blocks of one message, which may become several: each result of a tool is one, and the
// text around them.
class BlockReader {
 public:
  BlockReader(const std::string& role, v1::ChatInput& chat, ToolTable& table)
      : role_(role), chat_(chat), table_(table) {}

  void Read(JsonFields& block) {
    const std::string type = block.String("type").value_or("");
    if (type == "text") {
      Join(block.RequiredString("text"), *Own().mutable_content());
    } else if (type == "document" && role_ != kAssistant) {
      Join(ReadDocument(block), *Own().mutable_content());
    } else if (type == "search_result" && role_ != kAssistant) {
      Join(ReadSearchResult(block), *Own().mutable_content());
    } else if (type == "tool_result" && role_ == "user") {
      ReadResult(block);
    } else if (type == "thinking" && role_ == kAssistant) {
      Join(block.RequiredString("thinking"), *Own().mutable_reasoning_content());
    } else if (type == "redacted_thinking" && role_ == kAssistant) {
      Own();  // its text is encrypted
    } else if (type == "tool_use" && role_ == kAssistant) {
      ReadUse(block);
    } else if (IsOfHostedTool(type)) {
      Own();
      table_.LeaveOut(type);
    } else {
      block.FailUnserved("type", role_ == kAssistant
                                     ? "text, thinking or tool_use"
                                     : "text, document, search_result or tool_result");
    }
  }

 private:
  void ReadResult(JsonFields& block) {
    v1::ChatMessage& message = *chat_.add_messages();
    message.set_role("tool");
    message.set_tool_call_id(ReadCallId(block, "tool_use_id"));
    message.set_content(ReadTexts(block, "content", ReadResultBlock));
    own_ = -1;
  }

  void ReadUse(JsonFields& block) {
    if (static_cast<size_t>(Own().tool_calls_size()) >= kMaxToolCalls) {
      return block.Fail(
          "type", absl::StrCat("is one tool_use too many: a message may have ", kMaxToolCalls));
    }
    v1::ToolCall& call = *Own().add_tool_calls();
    call.set_id(ReadCallId(block, "id"));
    call.set_name(ReadCallName(block));
    const Json* const input = block.Find("input");
    call.set_arguments(input == nullptr ? "{}" : ArgumentsText(*input));
  }

  // The message of the role itself.
  v1::ChatMessage& Own() {
    if (own_ < 0) {
      own_ = chat_.messages_size();
      chat_.add_messages()->set_role(role_);
    }
    return *chat_.mutable_messages(own_);
  }

  const std::string role_;
  v1::ChatInput& chat_;
  ToolTable& table_;
  int own_ = -1;
};

void ReadMessage(JsonFields& message, v1::ChatInput& chat, ToolTable& table) {
  const std::string role = message.String("role").value_or("");
  if (role != "user" && role != kAssistant && role != "system") {
    return message.Fail("role", "must be user, assistant or system");
  }
  const Json* const content = message.Find("content");
  if (content == nullptr) return message.Fail("content", "is missing");
  if (content->is_string()) {
    v1::ChatMessage& text = *chat.add_messages();
    text.set_role(role);
    text.set_content(content->get<std::string>());
  } else if (content->is_array()) {
    BlockReader reader(role, chat, table);
    ForEachObject(message, "content", *content, [&](JsonFields& block) { reader.Read(block); });
  } else {
    message.Fail("content", "must be a string or a list of blocks");
  }
}

void ReadMessageList(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  const Json* const messages = fields.Array("messages");
  if (messages == nullptr || messages->empty()) return fields.Fail("messages", "is missing");
  std::string last_role;
  ForEachObject(fields, "messages", *messages, [&](JsonFields& message) {
    ReadMessage(message, chat, table);
    last_role = message.String("role").value_or("");
  });
  if (last_role == kAssistant) {
    fields.Fail(absl::StrCat("messages[", messages->size() - 1, "]"),
                "is the assistant's, and the last message must be the user's: Baton cannot "
                "continue an assistant's message; add a user's message after it");
  }
}

void ReadTools(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  const Json* const tools = fields.Array("tools");
  if (tools == nullptr) return;
  ForEachObject(fields, "tools", *tools, [&](JsonFields& object) {
    const std::string type = object.String("type").value_or("custom");
    if (type != "custom") {
      return table.LeaveOutTool({.field = object.PathOf("type"), .type = type},
                                object.String("name").value_or(""));
    }
    v1::Tool& tool = *chat.add_tools();
    tool.set_name(object.RequiredString("name"));
    tool.set_description(object.String("description").value_or(""));
    const Json* const schema = object.Object("input_schema");
    if (schema == nullptr) return object.Fail("input_schema", "is missing");
    tool.set_parameters(DumpJson(*schema));
    if (!IsToolName(tool.name())) return object.Fail("name", kToolNameRule);
    if (!table.Add({.name = tool.name()})) object.Fail("name", "is the name of another tool too");
  });
  RefuseHostedAlone(fields, chat, table);
}

// Reads the name of the tool that the choice names.
std::string ReadChosen(JsonFields& choice, const v1::ChatInput& chat, const ToolTable& table) {
  std::string name = choice.RequiredString("name");
  if (table.Find(name) != nullptr) return name;
  if (const std::string* const type = table.HostedTypeOf(name)) {
    choice.Fail("name", HostedToolFault(*type));
  } else if (!chat.tools().empty()) {
    choice.Fail("name", "is not a tool of `tools`");
  }
  return name;
}

void ReadToolChoice(JsonFields& fields, v1::ChatInput& chat, const ToolTable& table) {
  const Json* const value = fields.Object("tool_choice");
  if (value == nullptr) return;
  JsonFields object(*value, fields.PathOf("tool_choice"));
  v1::ToolChoice& choice = *chat.mutable_tool_choice();
  constexpr std::pair<const char*, v1::ToolChoice::Mode> kModes[] = {
      {"auto", v1::ToolChoice::MODE_AUTO},
      {"any", v1::ToolChoice::MODE_REQUIRED},
      {"tool", v1::ToolChoice::MODE_NAMED},
      {"none", v1::ToolChoice::MODE_NONE}};
  const std::string type = object.String("type").value_or("");
  for (const auto& [name, mode] : kModes) {
    if (type == name) choice.set_mode(mode);
  }
  if (choice.mode() == v1::ToolChoice::MODE_UNSPECIFIED) {
    object.Fail("type", "must be auto, any, tool or none");
  }
  const bool named = choice.mode() == v1::ToolChoice::MODE_NAMED;
  if (named) choice.set_name(ReadChosen(object, chat, table));
  choice.set_single_call(object.Bool("disable_parallel_tool_use").value_or(false));
  fields.Adopt(object.status());
  if ((named || choice.mode() == v1::ToolChoice::MODE_REQUIRED) && chat.tools().empty()) {
    fields.Fail("tool_choice", "needs tools, and there are none");
  }
}

}  // namespace

void ReadMessagesInput(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  ReadSystem(fields, chat);
  ReadMessageList(fields, chat, table);
  ReadTools(fields, chat, table);
  ReadToolChoice(fields, chat, table);
}

}  // namespace baton
