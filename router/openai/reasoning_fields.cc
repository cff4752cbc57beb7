#include "router/openai/reasoning_fields.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

namespace baton {
namespace {

constexpr char kNone[] = "none";

// Returns the variable, to be set, unless it is set already.
google::protobuf::Value* NewVariable(const char* name, v1::ChatInput& chat) {
  auto& variables = *chat.mutable_chat_template_kwargs()->mutable_fields();
  return variables.contains(name) ? nullptr : &variables[name];
}

void SetThinking(bool thinks, v1::ChatInput& chat) {
  if (auto* const variable = NewVariable("enable_thinking", chat)) variable->set_bool_value(thinks);
}

void SetEffort(const std::string& effort, v1::ChatInput& chat) {
  if (auto* const variable = NewVariable("reasoning_effort", chat)) {
    variable->set_string_value(effort);
  }
  if (effort == kNone) SetThinking(false, chat);
}

}  // namespace

void ReadEffort(JsonFields& fields, absl::string_view name, v1::ChatInput& chat) {
  constexpr const char* kEfforts[] = {kNone, "minimal", "low", "medium", "high", "xhigh", "max"};
  const std::optional<std::string> effort = fields.String(name);
  if (!effort.has_value()) return;
  if (std::find(std::begin(kEfforts), std::end(kEfforts), *effort) == std::end(kEfforts)) {
    return fields.FailUnserved(name, "none, minimal, low, medium, high, xhigh or max");
  }
  SetEffort(*effort, chat);
}

void ReadReasoning(JsonFields& fields, absl::string_view name, v1::ChatInput& chat) {
  const nlohmann::ordered_json* const object = fields.Object(name);
  if (object == nullptr) return;
  JsonFields inner(*object, fields.PathOf(name));
  ReadEffort(inner, "effort", chat);
  fields.Adopt(inner.status());
}

void ReadThinking(JsonFields& fields, absl::string_view name, v1::ChatInput& chat) {
  const nlohmann::ordered_json* const object = fields.Object(name);
  if (object == nullptr) return;
  JsonFields inner(*object, fields.PathOf(name));
  const std::string type = inner.String("type").value_or("");
  if (type == "disabled") {
    SetEffort(kNone, chat);
  } else if (type == "enabled") {
    SetThinking(true, chat);
  } else if (type != "adaptive") {
    inner.FailUnserved("type", "enabled, disabled or adaptive");
  }
  fields.Adopt(inner.status());
}

}  // namespace baton
