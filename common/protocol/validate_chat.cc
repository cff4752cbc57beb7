#include "common/protocol/validate_chat.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include <nlohmann/json.hpp>

#include "common/protocol/tool_name.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr absl::string_view kNameRule = "must be 1 to 128 letters, digits, '_', '-' and '.'";

// How deep brackets are nested in a text, if it is JSON. A deep value would take a deep stack to
// write.
size_t JsonDepth(absl::string_view text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (text[i] == '{' || text[i] == '[')) {
      deepest = std::max(deepest, ++depth);
    } else if (!in_string && (text[i] == '}' || text[i] == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

void CheckDepth(absl::string_view json, const std::string& field, Violations& violations) {
  if (JsonDepth(json) <= kMaxJsonDepth) return;
  violations.Add(field, absl::StrCat("is nested deeper than ", kMaxJsonDepth));
}

// Checks one message and returns its bytes.
size_t CheckMessage(const v1::ChatMessage& message, const std::string& field,
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
  size_t bytes = message.content().size() + message.reasoning_content().size();
  const int calls = std::min(message.tool_calls_size(), static_cast<int>(kMaxToolCalls));
  for (int i = 0; i < calls; ++i) {
    const v1::ToolCall& call = message.tool_calls(i);
    const std::string call_field = absl::StrCat(field, ".tool_calls[", i, "]");
    if (!IsToolName(call.name())) {
      violations.Add(absl::StrCat(call_field, ".name"), std::string(kNameRule));
    }
    violations.AtMost(call.id().size(), kMaxNameBytes, absl::StrCat(call_field, ".id"), "bytes");
    CheckDepth(call.arguments(), absl::StrCat(call_field, ".arguments"), violations);
    bytes += call.name().size() + call.arguments().size();
  }
  return bytes;
}

// Checks the tools and returns their bytes.
size_t CheckTools(const v1::ChatInput& chat, Violations& violations) {
  violations.AtMost(static_cast<size_t>(chat.tools_size()), kMaxTools, "chat.tools", "tools");
  std::set<absl::string_view> names;
  size_t bytes = 0;
  for (int i = 0; i < std::min(chat.tools_size(), static_cast<int>(kMaxTools)); ++i) {
    const v1::Tool& tool = chat.tools(i);
    const std::string field = absl::StrCat("chat.tools[", i, "]");
    if (!IsToolName(tool.name())) {
      violations.Add(absl::StrCat(field, ".name"), std::string(kNameRule));
    } else if (!names.insert(tool.name()).second) {
      violations.Add(absl::StrCat(field, ".name"), "is the name of another tool too");
    }
    bytes += tool.name().size() + tool.description().size() + tool.parameters().size();
    if (tool.parameters().empty()) continue;
    CheckDepth(tool.parameters(), absl::StrCat(field, ".parameters"), violations);
    const absl::string_view schema = absl::StripLeadingAsciiWhitespace(tool.parameters());
    if (!absl::StartsWith(schema, "{") || !nlohmann::json::accept(tool.parameters())) {
      violations.Add(absl::StrCat(field, ".parameters"), "must be a JSON schema, an object");
    }
  }
  return bytes;
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
      violations.Add("chat.tool_choice.name", "is no tool of chat.tools");
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
  size_t bytes = CheckTools(chat, violations);
  violations.AtMost(bytes, kMaxPromptBytes, "chat.tools", "bytes");
  for (int i = 0; i < std::min(chat.messages_size(), kMaxChatMessages); ++i) {
    bytes += CheckMessage(chat.messages(i), absl::StrCat("chat.messages[", i, "]"), violations);
  }
  violations.AtMost(bytes, kMaxPromptBytes, "chat.messages",
                    "bytes of content, together with the tools");
  CheckToolChoice(chat, violations);
  violations.AtMost(static_cast<size_t>(chat.chat_template_kwargs().fields().size()),
                    kMaxTemplateVariables, "chat.chat_template_kwargs", "variables");
  violations.AtMost(chat.chat_template_kwargs().ByteSizeLong(), kMaxTemplateVariableBytes,
                    "chat.chat_template_kwargs", "bytes");
}

}  // namespace baton
