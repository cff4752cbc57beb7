#include "common/protocol/validate_chat.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include <nlohmann/json.hpp>

#include "common/base/utf16_escapes.h"
#include "common/protocol/tool_name.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

struct JsonSize {
  size_t depth = 0;        // how many brackets are open at most
  size_t object_keys = 0;  // how many the object with the most has
  size_t keys = 0;         // how many all objects have
};

// How large a text is, if it is JSON, up to where it is too deep. A deep value would take a deep stack to write, and a key is
// found among those before it in time linear in their number.
JsonSize JsonSizeOf(absl::string_view text) {
  JsonSize size;
  std::vector<size_t> keys;  // how many each open object has; 0 of an array
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (text[i] == '{' || text[i] == '[')) {
      keys.push_back(0);
      size.depth = std::max(size.depth, keys.size());
      if (size.depth > kMaxJsonDepth) break;
    } else if (!in_string && (text[i] == '}' || text[i] == ']') && !keys.empty()) {
      keys.pop_back();
    } else if (!in_string && text[i] == ':' && !keys.empty()) {
      size.object_keys = std::max(size.object_keys, ++keys.back());
      ++size.keys;
    }
  }
  return size;
}

// What the parts of a chat have together.
struct ChatSize {
  size_t bytes = 0;
  size_t keys = 0;  // keys of JSON objects
};

// Checks a field that may be JSON, and adds its keys.
void CheckJson(absl::string_view json, const std::string& field, ChatSize& chat,
               Violations& violations) {
  const JsonSize size = JsonSizeOf(json);
  if (size.depth > kMaxJsonDepth) {
    violations.Add(field, absl::StrCat("is nested deeper than ", kMaxJsonDepth));
  }
  violations.AtMost(size.object_keys, kMaxObjectKeys, field, "keys in one object");
  chat.keys += size.keys;
}

// Checks one message and adds what it has.
void CheckMessage(const v1::ChatMessage& message, const std::string& field, ChatSize& size,
                  Violations& violations) {
  if (message.role().empty()) violations.Add(absl::StrCat(field, ".role"), "must not be empty");
  violations.AtMost(message.role().size(), kMaxNameBytes, absl::StrCat(field, ".role"), "bytes");
  violations.AtMost(message.name().size(), kMaxNameBytes, absl::StrCat(field, ".name"), "bytes");
  violations.AtMost(message.tool_call_id().size(), kMaxNameBytes,
                    absl::StrCat(field, ".tool_call_id"), "bytes");
  if (!message.tool_calls().empty() && message.role() != "assistant") {
    violations.Add(absl::StrCat(field, ".tool_calls"), "are for messages of the role assistant");
  }
  violations.AtMost(static_cast<size_t>(message.tool_calls_size()), kMaxToolCalls,
                    absl::StrCat(field, ".tool_calls"), "calls");
  size.bytes += message.content().size() + message.reasoning_content().size();
  const int calls = std::min(message.tool_calls_size(), static_cast<int>(kMaxToolCalls));
  for (int i = 0; i < calls; ++i) {
    const v1::ToolCall& call = message.tool_calls(i);
    const std::string call_field = absl::StrCat(field, ".tool_calls[", i, "]");
    if (!IsToolName(call.name())) {
      violations.Add(absl::StrCat(call_field, ".name"), std::string(kToolNameRule));
    }
    violations.AtMost(call.id().size(), kMaxNameBytes, absl::StrCat(call_field, ".id"), "bytes");
    CheckJson(call.arguments(), absl::StrCat(call_field, ".arguments"), size, violations);
    size.bytes += call.name().size() + call.arguments().size();
  }
}

// Checks the tools and returns what they have.
ChatSize CheckTools(const v1::ChatInput& chat, Violations& violations) {
  violations.AtMost(static_cast<size_t>(chat.tools_size()), kMaxTools, "chat.tools", "tools");
  std::set<absl::string_view> names;
  ChatSize size;
  for (int i = 0; i < std::min(chat.tools_size(), static_cast<int>(kMaxTools)); ++i) {
    const v1::Tool& tool = chat.tools(i);
    const std::string field = absl::StrCat("chat.tools[", i, "]");
    if (!IsToolName(tool.name())) {
      violations.Add(absl::StrCat(field, ".name"), std::string(kToolNameRule));
    } else if (!names.insert(tool.name()).second) {
      violations.Add(absl::StrCat(field, ".name"), "is the name of another tool too");
    }
    size.bytes += tool.name().size() + tool.description().size() + tool.parameters().size();
    if (tool.parameters().empty()) continue;
    CheckJson(tool.parameters(), absl::StrCat(field, ".parameters"), size, violations);
    const absl::string_view schema = absl::StripLeadingAsciiWhitespace(tool.parameters());
    if (!absl::StartsWith(schema, "{") || !nlohmann::json::accept(tool.parameters())) {
      const std::string half_pair = HalfPairFault(tool.parameters());
      violations.Add(absl::StrCat(field, ".parameters"),
                     half_pair.empty() ? "must be a JSON schema, an object" : half_pair);
    }
  }
  return size;
}

void CheckToolChoice(const v1::ChatInput& chat, Violations& violations) {
  const v1::ToolChoice& choice = chat.tool_choice();
  const auto is_chosen = [&](const v1::Tool& tool) { return tool.name() == choice.name(); };
  if (!v1::ToolChoice::Mode_IsValid(choice.mode())) {
    violations.Add("chat.tool_choice.mode",
                   absl::StrCat("must be one of MODE_AUTO, _NONE, _REQUIRED and _NAMED or not set, "
                                "is ",
                                static_cast<int>(choice.mode())));
  } else if (choice.mode() == v1::ToolChoice::MODE_NAMED) {
    if (std::none_of(chat.tools().begin(), chat.tools().end(), is_chosen)) {
      violations.Add("chat.tool_choice.name", "is not a tool of chat.tools");
    }
  } else if (choice.mode() == v1::ToolChoice::MODE_REQUIRED && chat.tools().empty()) {
    violations.Add("chat.tool_choice.mode", "requires a call, but chat.tools is empty");
  }
}

}  // namespace

bool IsHeldToCalls(const v1::ToolChoice& choice) {
  return choice.mode() == v1::ToolChoice::MODE_REQUIRED ||
         choice.mode() == v1::ToolChoice::MODE_NAMED;
}

void CheckChat(const v1::ChatInput& chat, Violations& violations) {
  if (chat.messages_size() == 0) violations.Add("chat.messages", "must not be empty");
  violations.AtMost(static_cast<size_t>(chat.messages_size()), kMaxChatMessages, "chat.messages",
                    "messages");
  ChatSize size = CheckTools(chat, violations);
  violations.AtMost(size.bytes, kMaxPromptBytes, "chat.tools", "bytes");
  violations.AtMost(size.keys, kMaxJsonKeys, "chat.tools", "keys of JSON objects");
  size.keys = 0;
  for (int i = 0; i < std::min(chat.messages_size(), kMaxChatMessages); ++i) {
    CheckMessage(chat.messages(i), absl::StrCat("chat.messages[", i, "]"), size, violations);
  }
  violations.AtMost(size.keys, kMaxJsonKeys, "chat.messages",
                    "keys of JSON objects in their calls");
  violations.AtMost(size.bytes, kMaxPromptBytes, "chat.messages",
                    "bytes of content, together with the tools");
  CheckToolChoice(chat, violations);
  violations.AtMost(static_cast<size_t>(chat.chat_template_kwargs().fields().size()),
                    kMaxTemplateVariables, "chat.chat_template_kwargs", "variables");
  violations.AtMost(chat.chat_template_kwargs().ByteSizeLong(), kMaxTemplateVariableBytes,
                    "chat.chat_template_kwargs", "bytes");
}

}  // namespace baton
