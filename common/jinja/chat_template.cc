#include "common/jinja/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/json_value.h"
#include "common/jinja/parser.h"
#include "common/jinja/runtime.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Text;
using jinja::Value;

// Roles that a client chooses rather than writes, so templates may build markers with them ("<|" +
// role + "|>"). Any other role is untrusted text of the message.
constexpr std::array<absl::string_view, 8> kKnownRoles = {
    "system", "user", "assistant", "tool", "developer", "function", "model", "ipython"};

bool IsKnownRole(absl::string_view role) {
  return std::find(kKnownRoles.begin(), kKnownRoles.end(), role) != kKnownRoles.end();
}

absl::StatusOr<Value> MessageValue(jinja::Workspace& workspace, const ChatMessage& message) {
  std::vector<std::pair<Value, Value>> items;
  const auto add = [&](absl::string_view key, const std::string& text,
                       bool trusted) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const Value key_value, workspace.NewText(key, true));
    BATON_ASSIGN_OR_RETURN(const Value value, workspace.NewText(text, trusted));
    items.emplace_back(key_value, value);
    return absl::OkStatus();
  };
  BATON_RETURN_IF_ERROR(add("role", message.role, IsKnownRole(message.role)));
  BATON_RETURN_IF_ERROR(add("content", message.content, false));
  if (!message.name.empty()) BATON_RETURN_IF_ERROR(add("name", message.name, false));
  return workspace.NewDict(items);
}

absl::StatusOr<Value> MessageValue(jinja::Workspace& workspace, const Json& message, size_t index) {
  const auto role = message.find("role");
  if (!message.is_object() || role == message.end() || !role->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("messages[", index, "] must be an object whose role is a string"));
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, member] : message.items()) {  // no step: FromJson counts them
    BATON_ASSIGN_OR_RETURN(const Value key, workspace.NewText(name, true));
    BATON_ASSIGN_OR_RETURN(Value value, jinja::FromJson(workspace, member));
    if (name == "role" && IsKnownRole(member.get_ref<const std::string&>())) {
      BATON_ASSIGN_OR_RETURN(value, workspace.NewText(value.text()->bytes(), true));
    }
    items.emplace_back(key, value);
  }
  return workspace.NewDict(items);
}

absl::StatusOr<std::vector<TextPiece>> Run(const jinja::Block& block, const Value& messages,
                                           const Value& tools, const ChatTemplateOptions& options,
                                           jinja::Workspace& workspace) {
  jinja::Variables variables;
  variables.emplace_back("messages", messages);
  variables.emplace_back("add_generation_prompt", Value{options.add_generation_prompt});
  BATON_ASSIGN_OR_RETURN(const Value bos, workspace.NewText(options.bos_token, true));
  variables.emplace_back("bos_token", bos);
  BATON_ASSIGN_OR_RETURN(const Value eos, workspace.NewText(options.eos_token, true));
  variables.emplace_back("eos_token", eos);
  variables.emplace_back("tools", tools);
  variables.emplace_back("documents", Value{jinja::None{}});
  for (const auto& [name, json] : options.variables.items()) {  // no step: FromJson counts them
    if (IsChatVariable(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the variable ", name, " is set by Baton itself; leave it out"));
    }
    BATON_ASSIGN_OR_RETURN(const Value value, jinja::FromJson(workspace, json));
    variables.emplace_back(name, value);
  }

  BATON_ASSIGN_OR_RETURN(const Text output, jinja::Run(block, variables, workspace, options.today));
  // The pieces are a second copy.
  BATON_RETURN_IF_ERROR(
      workspace.Take(2 * output.size() + output.runs().size() * 2 * sizeof(TextPiece)));
  std::vector<TextPiece> pieces;
  pieces.reserve(output.runs().size());
  size_t begin = 0;
  for (const Text::Run& run : output.runs()) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    pieces.push_back({.text = std::string(output.bytes().substr(begin, run.end - begin)),
                      .trusted = run.trusted});
    begin = run.end;
  }
  return pieces;
}

}  // namespace

bool IsChatVariable(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"messages",  "tools",     "add_generation_prompt",
                                          "bos_token", "eos_token", "documents"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

struct ChatTemplate::Rep {
  jinja::Block block;
  std::optional<jinja::Block> with_tools;  // none: `block`
  bool needs_today = false;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Compile(absl::string_view source,
                                                   absl::string_view with_tools) {
  auto rep = std::make_unique<Rep>();
  BATON_ASSIGN_OR_RETURN(rep->block, jinja::Parse(source, &rep->needs_today));
  if (!with_tools.empty()) {
    bool needs_today = false;
    absl::StatusOr<jinja::Block> block = jinja::Parse(with_tools, &needs_today);
    if (!block.ok()) {
      return absl::Status(block.status().code(),
                          absl::StrCat("tool_use: ", block.status().message()));
    }
    rep->with_tools = *std::move(block);
    rep->needs_today = rep->needs_today || needs_today;
  }
  return ChatTemplate(std::move(rep));
}

bool ChatTemplate::NeedsToday() const { return rep_->needs_today; }

absl::StatusOr<std::vector<TextPiece>> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages, const ChatTemplateOptions& options) const {
  jinja::Workspace workspace(options.cancelled);
  jinja::ListBuilder values(workspace);
  for (const ChatMessage& message : messages) {
    BATON_ASSIGN_OR_RETURN(const Value value, MessageValue(workspace, message));
    BATON_RETURN_IF_ERROR(values.Add(value));
  }
  BATON_ASSIGN_OR_RETURN(const Value list, values.Finish());
  return Run(rep_->block, list, Value{jinja::None{}}, options, workspace);
}

absl::StatusOr<std::vector<TextPiece>> ChatTemplate::Render(
    const ChatJson& chat, const ChatTemplateOptions& options) const {
  if (!chat.messages.is_array()) return absl::InvalidArgumentError("messages must be an array");
  if (!chat.tools.is_array() && !chat.tools.is_null()) {
    return absl::InvalidArgumentError("tools must be an array");
  }
  jinja::Workspace workspace(options.cancelled);
  jinja::ListBuilder values(workspace);
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Value value, MessageValue(workspace, chat.messages[i], i));
    BATON_RETURN_IF_ERROR(values.Add(value));
  }
  BATON_ASSIGN_OR_RETURN(const Value list, values.Finish());
  BATON_ASSIGN_OR_RETURN(const Value tools, jinja::FromJson(workspace, chat.tools));
  const bool has_tools = !chat.tools.empty() && rep_->with_tools.has_value();
  return Run(has_tools ? *rep_->with_tools : rep_->block, list, tools, options, workspace);
}

}  // namespace baton
