// A form of each family, as it follows from texts of the family's templates.
#pragma once

#include <string>

#include "router/tools/tool_form.h"

namespace baton {

inline std::string SampleTemplate(ToolFormKind kind) {
  const std::string think = "{{ tools }}<think></think>";
  switch (kind) {
    case ToolFormKind::kGeneric:
      return "<think></think>";
    case ToolFormKind::kHermes:
      return think + "<tool_call>{\"name\"</tool_call>";
    case ToolFormKind::kQwenXml:
      return think + "<tool_call>\\n<function=";
    case ToolFormKind::kLlama3:
      return "{{ tools }}<|start_header_id|>ipython\"parameters\": ";
    case ToolFormKind::kMistral:
      return "{{ tools }}[TOOL_CALLS]";
    case ToolFormKind::kMistralV13:
      return "{{ tools }}[TOOL_CALLS][ARGS][THINK][/THINK]";
    case ToolFormKind::kHarmony:
      return "{{ tools }}<|channel|><|message|>commentary";
    case ToolFormKind::kGranite:
      return "{{ tools }}<|tool_call|>";
    case ToolFormKind::kPhi4:
      return "{{ tools }}<|tool|><|/tool|>";
  }
  return "";
}

// `special`: all markers are special tokens, but brackets.
inline ToolForm SampleForm(ToolFormKind kind, bool special = false) {
  return ToolForm::OfTemplate(SampleTemplate(kind), [special](absl::string_view text) {
    return special && text.size() > 1;
  });
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
