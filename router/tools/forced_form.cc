// ToolForm::FormOf.
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/json/json_tree.h"
#include "common/protocol/validate_chat.h"
#include "common/rpc/status.h"
#include "router/tools/tool_form.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// What stands around the arguments of a call of `name`.
void SetTag(ToolFormKind kind, const std::string& name, v1::StructuralTag& tag) {
  const std::string object = absl::StrCat("{\"name\": \"", name, "\", \"arguments\": ");
  switch (kind) {
    case ToolFormKind::kHermes:
    case ToolFormKind::kQwenXml:
      tag.set_begin(absl::StrCat("<tool_call>\n", object));
      tag.set_end("}\n</tool_call>");
      return;
    case ToolFormKind::kLlama3:
      tag.set_begin(absl::StrCat("{\"name\": \"", name, "\", \"parameters\": "));
      tag.set_end("}");
      return;
    case ToolFormKind::kMistralV13:
      tag.set_begin(absl::StrCat("[TOOL_CALLS]", name, "[ARGS]"));
      return;
    case ToolFormKind::kHarmony:
      tag.set_begin(absl::StrCat("<|channel|>commentary to=functions.", name,
                                 " <|constrain|>json<|message|>"));
      return;
    case ToolFormKind::kGeneric:
    case ToolFormKind::kMistral:
    case ToolFormKind::kGranite:
    case ToolFormKind::kPhi4:
      tag.set_begin(object);
      tag.set_end("}");
      return;
  }
}

// What stands around all calls, and between two of them.
void SetList(ToolFormKind kind, v1::StructuralTags& tags) {
  tags.set_separator(", ");
  switch (kind) {
    case ToolFormKind::kHermes:
    case ToolFormKind::kQwenXml:
      tags.set_separator("\n");
      return;
    case ToolFormKind::kMistralV13:
      tags.clear_separator();
      return;
    case ToolFormKind::kGeneric:
      tags.set_begin("{\"tool_calls\": [");
      tags.set_end("]}");
      return;
    case ToolFormKind::kMistral:
      tags.set_begin("[TOOL_CALLS][");
      tags.set_end("]");
      return;
    case ToolFormKind::kGranite:
      tags.set_begin("<|tool_call|>[");
      tags.set_end("]");
      return;
    case ToolFormKind::kPhi4:
      tags.set_begin("<|tool_call|>[");
      tags.set_end("]<|/tool_call|>");
      return;
    case ToolFormKind::kLlama3:
    case ToolFormKind::kHarmony:
      tags.clear_separator();
      return;
  }
}

// Llama 3 and harmony end their turn with a call.
bool MayRepeat(ToolFormKind kind) {
  return kind != ToolFormKind::kLlama3 && kind != ToolFormKind::kHarmony;
}

// The schema of a tool's arguments, which are an object whatever the tool says.
absl::StatusOr<std::string> ArgumentsSchema(const v1::Tool& tool, int index) {
  if (tool.parameters().empty()) return std::string(R"({"type":"object"})");
  Json schema = ParseOrderedJson(tool.parameters());
  if (!schema.is_object()) {
    return InvalidField(absl::StrCat("chat.tools[", index, "].parameters"),
                        "must be a JSON schema, an object");
  }
  for (const char* keyword : {"type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}) {
    if (schema.contains(keyword)) return tool.parameters();
  }
  schema["type"] = "object";
  return schema.dump();
}

}  // namespace

absl::StatusOr<v1::ResponseFormat> ToolForm::FormOf(const v1::ChatInput& chat) const {
  v1::ResponseFormat format;
  if (!IsHeldToCalls(chat.tool_choice())) return format;
  const v1::ToolChoice& choice = chat.tool_choice();
  const bool is_named = choice.mode() == v1::ToolChoice::MODE_NAMED;
  v1::StructuralTags& tags = *format.mutable_structural_tags();
  for (int i = 0; i < chat.tools_size(); ++i) {
    const v1::Tool& tool = chat.tools(i);
    if (is_named && tool.name() != choice.name()) continue;
    v1::StructuralTag& tag = *tags.add_tags();
    SetTag(kind_, tool.name(), tag);
    BATON_ASSIGN_OR_RETURN(*tag.mutable_schema(), ArgumentsSchema(tool, i));
  }
  if (tags.tags().empty()) {
    return is_named ? InvalidField("chat.tool_choice.name", "is not a tool of chat.tools")
                    : InvalidField("chat.tool_choice", "requires a call, but there are no tools");
  }
  SetList(kind_, tags);
  tags.set_several(!is_named && !choice.single_call() && MayRepeat(kind_));
  if (!tags.several()) tags.clear_separator();
  tags.set_parse_special(true);
  return format;
}

}  // namespace baton
