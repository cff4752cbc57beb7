// A form of each family, as it follows from texts of the family's templates.
#pragma once

#include <string>

#include "router/tools/tool_form.h"

namespace baton {

inline ToolForm SampleForm(ToolFormKind kind) {
  const std::string think = "{{ tools }}<think></think>";
  switch (kind) {
    case ToolFormKind::kGeneric:
      return ToolForm::OfTemplate("<think></think>");
    case ToolFormKind::kHermes:
      return ToolForm::OfTemplate(think + "<tool_call>{\"name\"</tool_call>");
    case ToolFormKind::kQwenXml:
      return ToolForm::OfTemplate(think + "<tool_call>\\n<function=");
    case ToolFormKind::kLlama3:
      return ToolForm::OfTemplate("{{ tools }}<|start_header_id|>ipython\"parameters\": ");
    case ToolFormKind::kMistral:
      return ToolForm::OfTemplate("{{ tools }}[TOOL_CALLS]");
    case ToolFormKind::kMistralV13:
      return ToolForm::OfTemplate("{{ tools }}[TOOL_CALLS][ARGS][THINK][/THINK]");
    case ToolFormKind::kHarmony:
      return ToolForm::OfTemplate("{{ tools }}<|channel|><|message|>commentary");
    case ToolFormKind::kGranite:
      return ToolForm::OfTemplate("{{ tools }}<|tool_call|>");
    case ToolFormKind::kPhi4:
      return ToolForm::OfTemplate("{{ tools }}<|tool|><|/tool|>");
  }
  return ToolForm::OfTemplate("");
}

inline constexpr ToolFormKind kAllKinds[] = {
    ToolFormKind::kGeneric, ToolFormKind::kHermes,  ToolFormKind::kQwenXml,
    ToolFormKind::kLlama3,  ToolFormKind::kMistral, ToolFormKind::kMistralV13,
    ToolFormKind::kHarmony, ToolFormKind::kGranite, ToolFormKind::kPhi4};

// A chat with the tools f, whose argument `s` is a string, and g.
inline v1::ChatInput SampleChat() {
  v1::ChatInput chat;
  v1::Tool& tool = *chat.add_tools();
  tool.set_name("f");
  tool.set_parameters(
      R"({"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"}}})");
  chat.add_tools()->set_name("g");
  return chat;
}

}  // namespace baton
