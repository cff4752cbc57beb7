#include "router/openai/tool_fields.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/protocol/tool_name.h"
#include "common/rpc/limits.h"
#include "router/api/api_error.h"
#include "router/openai/common_fields.h"
#include "router/openai/custom_tool.h"

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

// Reads the elements of a list of tools.
class ToolReader {
 public:
  ToolReader(ToolStyle style, v1::ChatInput& chat, ToolTable& table)
      : style_(style), chat_(chat), table_(table) {}

  // `space`: the namespace that has the tool.
  void Read(JsonFields& tool, const std::string& space) {
    const std::string type = tool.String("type").value_or("");
    if (type == "function" || type == "custom") {
      if (style_ == ToolStyle::kBeside) return ReadServed(tool, type, space);
      const Json* const inside = tool.Object(type);
      if (inside == nullptr) return tool.Fail(type, "is missing");
      JsonFields inner(*inside, tool.PathOf(type));
      ReadServed(inner, type, space);
      tool.Adopt(inner.status());
    } else if (type == "namespace" && space.empty()) {
      ReadNamespace(tool);
    } else if (type.empty()) {
      tool.FailUnserved("type", "function or custom");
    } else {
      table_.LeaveOutTool({.field = tool.PathOf("type"), .type = type});
    }
  }

  // Reads {"name", "description"} and the "parameters" of a function or the "format" of a custom
  // tool. All but the name may be absent.
  void ReadServed(JsonFields& tool, absl::string_view type, const std::string& space) {
    ClientTool known{
        .space = space, .name = tool.String("name").value_or(""), .is_custom = type == "custom"};
    v1::Tool shown;
    shown.set_name(FlatToolName(space, known.name));
    shown.set_description(tool.String("description").value_or(""));
    if (known.is_custom) {
      shown.set_parameters(ReadCustomParameters(tool));
    } else if (const Json* const parameters = tool.Object("parameters")) {
      shown.set_parameters(DumpJson(*parameters));
    }
    const std::string subject = space.empty()
                                    ? ""
                                    : absl::StrCat("is '", shown.name().substr(0, kMaxNameBytes),
                                                   "' with its namespace, which ");
    if (known.name.empty()) return tool.Fail("name", "is missing");
    if (!IsToolName(shown.name())) return tool.Fail("name", absl::StrCat(subject, kToolNameRule));
    if (!tool.status().ok()) return;
    if (!table_.Add(std::move(known))) {
      return tool.Fail("name", absl::StrCat(subject, "is the name of another tool too"));
    }
    *chat_.add_tools() = std::move(shown);
  }

 private:
  void ReadNamespace(JsonFields& space) {
    const std::string name = space.RequiredString("name");
    if (!IsToolName(name)) return space.Fail("name", kToolNameRule);
    if (space.Array("tools") == nullptr) return space.Fail("tools", "is missing");
    ForEachTool(space, "tools", [&](JsonFields& tool) { Read(tool, name); });
  }

  const ToolStyle style_;
  v1::ChatInput& chat_;
  ToolTable& table_;
};

// Reads {"name", "namespace"} as a flat name.
std::string ReadFlatName(JsonFields& object) {
  const std::string name = object.String("name").value_or("");
  return name.empty() ? "" : FlatToolName(object.String("namespace").value_or(""), name);
}

// The tool that a `tool_choice` names.
struct NamedTool {
  std::string name{};   // flat name
  std::string field{};  // field of the choice, such as "function.name"
};

// Reads the name in {"function": {"name"}}; or in {"name"}, as responses and the old form have it.
NamedTool ReadName(JsonFields& choice, ToolStyle style, const std::string& type) {
  const Json* const inside = style == ToolStyle::kInside ? choice.Object(type) : nullptr;
  NamedTool named{.field = style == ToolStyle::kInside ? absl::StrCat(type, ".name") : "name"};
  if (inside == nullptr) {
    named.name = ReadFlatName(choice);
  } else {
    JsonFields inner(*inside, choice.PathOf(type));
    named.name = ReadFlatName(inner);
    choice.Adopt(inner.status());
  }
  if (named.name.empty()) choice.Fail(named.field, "is missing");
  return named;
}

bool IsServed(absl::string_view type) { return type == "function" || type == "custom"; }

// {"mode": "auto" | "required", "tools": [...]}
void ReadAllowed(JsonFields& allowed, ToolStyle style, v1::ChatInput& chat, ToolTable& table) {
  if (!ReadMode(allowed.String("mode").value_or(""), *chat.mutable_tool_choice())) {
    allowed.Fail("mode", "must be auto or required");
  }
  v1::ChatInput kept;
  std::set<std::string> names;
  absl::Status hosted;  // names the first hosted tool
  ForEachTool(allowed, "tools", [&](JsonFields& tool) {
    const std::string type = tool.String("type").value_or("function");
    if (!IsServed(type)) {
      table.LeaveOut(type);
      if (hosted.ok()) hosted = InvalidParam(tool.PathOf("type"), HostedToolFault(type));
      return;
    }
    const std::string name = ReadName(tool, style, type).name;
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
  if (kept.tools().empty()) {
    allowed.Adopt(hosted);
    allowed.Fail("tools", "must not be empty");
  }
  chat.mutable_tools()->Swap(kept.mutable_tools());
}

void ReadChoiceObject(JsonFields& choice, ToolStyle style, v1::ChatInput& chat, ToolTable& table) {
  const bool inside = style == ToolStyle::kInside;
  const std::string type = choice.String("type").value_or(inside ? "function" : "");
  if (IsServed(type)) {
    const NamedTool named = ReadName(choice, style, type);
    // Without tools it is the choice that is wrong.
    if (!chat.tools().empty() && table.Find(named.name) == nullptr) {
      choice.Fail(named.field, "is not a tool of `tools`");
    }
    chat.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NAMED);
    chat.mutable_tool_choice()->set_name(named.name);
  } else if (type.empty()) {
    choice.FailUnserved("type", "function, custom or allowed_tools");
  } else if (type != "allowed_tools") {
    choice.Fail("type", HostedToolFault(type));
  } else if (!inside) {
    ReadAllowed(choice, style, chat, table);
  } else if (const Json* const object = choice.Object("allowed_tools")) {
    JsonFields allowed(*object, choice.PathOf("allowed_tools"));
    ReadAllowed(allowed, style, chat, table);
    choice.Adopt(allowed.status());
  } else {
    choice.Fail("allowed_tools", "is missing");
  }
}

}  // namespace

void ReadToolList(JsonFields& fields, ToolStyle style, v1::ChatInput& chat, ToolTable& table) {
  ToolReader reader(style, chat, table);
  ForEachTool(fields, "tools", [&](JsonFields& tool) { reader.Read(tool, /*space=*/""); });
}

void ReadFunctionList(JsonFields& fields, v1::ChatInput& chat, ToolTable& table) {
  ToolReader reader(ToolStyle::kBeside, chat, table);
  ForEachTool(fields, "functions",
              [&](JsonFields& function) { reader.ReadServed(function, "function", /*space=*/""); });
}

void RefuseHostedAlone(JsonFields& fields, const v1::ChatInput& chat, const ToolTable& table) {
  if (!chat.tools().empty() || !table.first_hosted().has_value()) return;
  fields.Fail(table.first_hosted()->field, HostedToolFault(table.first_hosted()->type));
}

void ReadToolChoice(JsonFields& fields, absl::string_view name, ToolStyle style,
                    v1::ChatInput& chat, ToolTable& table) {
  const Json* const value = fields.Find(name);
  if (value == nullptr) return;
  v1::ToolChoice& choice = *chat.mutable_tool_choice();
  if (value->is_object()) {
    JsonFields object(*value, fields.PathOf(name));
    ReadChoiceObject(object, style, chat, table);
    fields.Adopt(object.status());
  } else if (!value->is_string() || !ReadMode(value->get<std::string>(), choice)) {
    fields.Fail(name, "must be none, auto, required, or name a function");
  }
  const bool forced =
      choice.mode() == v1::ToolChoice::MODE_REQUIRED || choice.mode() == v1::ToolChoice::MODE_NAMED;
  if (forced && chat.tools().empty()) fields.Fail(name, "needs tools, and there are none");
}

std::string ReadCallName(JsonFields& call) {
  const std::string name = call.RequiredString("name");
  const std::string space = call.String("namespace").value_or("");
  std::string flat = FlatToolName(space, name);
  if (IsToolName(flat)) return flat;
  if (space.empty()) {
    call.Fail("name", kToolNameRule);
    return flat;
  }
  // The pair may be longer than a name. A tool that has such a pair is refused, an earlier call is
  // not.
  std::replace_if(
      flat.begin(), flat.end(), [](char byte) { return !IsToolNameByte(byte); }, '_');
  return flat.substr(0, kMaxToolNameBytes);
}

std::string ReadCallId(JsonFields& call, absl::string_view name) {
  std::string id = call.RequiredString(name);
  if (id.size() > kMaxNameBytes) {
    call.Fail(name,
              absl::StrCat("has ", id.size(), " bytes; at most ", kMaxNameBytes, " are allowed"));
  }
  return id;
}

}  // namespace baton
