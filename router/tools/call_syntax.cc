#include "router/tools/call_syntax.h"

namespace baton {

CallSyntax CallSyntaxOf(ToolFormKind kind) {
  CallSyntax syntax;
  switch (kind) {
    case ToolFormKind::kGeneric:
    case ToolFormKind::kHarmony:
      syntax.is_bare = true;
      syntax.open = {"{", "\"tool_calls\"", ":", "["};
      syntax.separator = ",";
      syntax.close = {"]", "}"};
      break;
    case ToolFormKind::kHermes:
      syntax.begins = {"<tool_call>"};
      syntax.close = {"</tool_call>"};
      break;
    case ToolFormKind::kQwenXml:
      syntax.begins = {"<tool_call>", "<function="};
      syntax.has_xml = true;
      syntax.trailing = {"</tool_call>"};
      break;
    case ToolFormKind::kLlama3:
      syntax.begins = {"<|python_tag|>"};
      syntax.is_bare = true;
      syntax.separator = ";";
      break;
    case ToolFormKind::kMistral:
      syntax.begins = {"[TOOL_CALLS]"};
      syntax.open = {"["};
      syntax.separator = ",";
      syntax.close = {"]"};
      break;
    case ToolFormKind::kMistralV13:
      syntax.begins = {"[TOOL_CALLS]"};
      syntax.body = CallSyntax::Body::kNamed;
      break;
    case ToolFormKind::kGranite:
      syntax.begins = {"<|tool_call|>", "<tool_call>"};
      syntax.open = {"["};
      syntax.separator = ",";
      syntax.close = {"]"};
      break;
    case ToolFormKind::kPhi4:
      syntax.begins = {"<|tool_call|>"};
      syntax.open = {"["};
      syntax.separator = ",";
      syntax.close = {"]"};
      syntax.trailing = {"<|/tool_call|>"};
      break;
  }
  return syntax;
}

}  // namespace baton
