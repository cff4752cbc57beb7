#include "router/openai/tool_fields.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/rpc/limits.h"
#include "router/openai/common_fields.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Calls `read` for each object of the list in the field `name`, of at most kMaxTools.
void ForEachTool(JsonFields& fields, absl::string_view name,
                 const std::function<void(JsonFields&)>& read) {
  const Json* const list = fields.Array(name);
  if (list == nullptr) return;
  if (list->size() > kMaxTools) {
    return fields.Fail(
        name, absl::StrCat("has ", list->size(), " tools, at most ", kMaxTools, " are allowed"));
  }
  for (size_t i = 0; i < list->size() && fields.status().ok(); ++i) {
    const std::string path = absl::StrCat(name, "[", i, "]");
    if (!(*list)[i].is_object()) return fields.Fail(path, "must be an object");
    JsonFields tool((*list)[i], fields.PathOf(path));
    read(tool);
    fields.Adopt(tool.status());
  }
}

bool ReadMode(const std::string& name, v1::ToolChoice& choice) {
  constexpr std::pair<const char*, v1::ToolChoice::Mode> kModes[] = {
      {"auto", v1::ToolChoice::MODE_AUTO},
      {"none", v1::ToolChoice::MODE_NONE},
      {"required", v1::ToolChoice::MODE_REQUIRED},
  };
  for (const auto& [known, mode] : kModes) {
    if (name != known) continue;
    choice.set_mode(mode);
    return true;
  }
  return false;
}

// The name in {"function": {"name"}}; or in {"name"}, as responses and the old form have it.
std::string ReadName(JsonFields& choice, ToolStyle style) {
  const Json* const function = style == ToolStyle::kInside ? choice.Object("function") : nullptr;
  if (function == nullptr) {
    std::string name = choice.String("name").value_or("");
    if (name.empty()) {
      choice.Fail(style == ToolStyle::kInside ? "function.name" : "name", "is missing");
    }
    return name;
  }
  JsonFields inner(*function, choice.PathOf("function"));
  std::string name = inner.String("name").value_or("");
  if (name.empty()) inner.Fail("name", "is missing");
  choice.Adopt(inner.status());
  return name;
}

// {"mode": "auto" | "required", "tools": [...]}
void ReadAllowed(JsonFields& allowed, ToolStyle style, v1::ChatInput& chat) {
  if (!ReadMode(allowed.String("mode").value_or(""), *chat.mutable_tool_choice())) {
    allowed.Fail("mode", "must be auto or required");
  }
  v1::ChatInput kept;
  std::set<std::string> names;
  ForEachTool(allowed, "tools", [&](JsonFields& tool) {
    const std::string name = ReadName(tool, style);
    if (!tool.status().ok()) return;
    const auto found = std::find_if(chat.tools().begin(), chat.tools().end(),
                                    [&](const v1::Tool& known) { return known.name() == name; });
    if (found == chat.tools().end()) {
      allowed.Fail("tools", "has a tool that is not among the request's");
    } else if (!names.insert(name).second) {
      allowed.Fail("tools", "has a tool twice");
    } else {
      *kept.add_tools() = *found;
    }
  });
  if (kept.tools().empty()) allowed.Fail("tools", "must not be empty");
  chat.mutable_tools()->Swap(kept.mutable_tools());
}

void ReadChoiceObject(JsonFields& choice, ToolStyle style, v1::ChatInput& chat) {
  const bool inside = style == ToolStyle::kInside;
  const std::string type = choice.String("type").value_or(inside ? "function" : "");
  if (type == "function") {
    chat.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NAMED);
    chat.mutable_tool_choice()->set_name(ReadName(choice, style));
  } else if (type != "allowed_tools") {
    choice.Fail("type", "must be function or allowed_tools");
  } else if (!inside) {
    ReadAllowed(choice, style, chat);
  } else if (const Json* const object = choice.Object("allowed_tools")) {
    JsonFields allowed(*object, choice.PathOf("allowed_tools"));
    ReadAllowed(allowed, style, chat);
    choice.Adopt(allowed.status());
  } else {
    choice.Fail("allowed_tools", "is missing");
  }
}

}  // namespace

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

void ReadToolList(JsonFields& fields, ToolStyle style, v1::ChatInput& chat) {
  ForEachTool(fields, "tools", [&](JsonFields& tool) {
    if (tool.String("type").value_or("") != "function") {
      return tool.Fail("type", "is not function: only functions are served");
    }
    if (style == ToolStyle::kBeside) {
      *chat.add_tools() = ReadFunction(tool);
    } else if (const Json* const function = tool.Object("function")) {
      JsonFields inner(*function, tool.PathOf("function"));
      *chat.add_tools() = ReadFunction(inner);
      tool.Adopt(inner.status());
    } else {
      tool.Fail("function", "is missing");
    }
  });
}

void ReadFunctionList(JsonFields& fields, v1::ChatInput& chat) {
  ForEachTool(fields, "functions",
              [&](JsonFields& function) { *chat.add_tools() = ReadFunction(function); });
}

void ReadToolChoice(JsonFields& fields, absl::string_view name, ToolStyle style,
                    v1::ChatInput& chat) {
  const Json* const value = fields.Find(name);
  if (value == nullptr) return;
  v1::ToolChoice& choice = *chat.mutable_tool_choice();
  if (value->is_object()) {
    JsonFields object(*value, fields.PathOf(name));
    ReadChoiceObject(object, style, chat);
    fields.Adopt(object.status());
  } else if (!value->is_string() || !ReadMode(value->get<std::string>(), choice)) {
    fields.Fail(name, "must be none, auto, required, or name a function");
  }
  const bool forced =
      choice.mode() == v1::ToolChoice::MODE_REQUIRED || choice.mode() == v1::ToolChoice::MODE_NAMED;
  if (forced && chat.tools().empty()) fields.Fail(name, "needs tools, and there are none");
}

}  // namespace baton
