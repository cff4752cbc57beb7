// Models without tools and reasoning, for tests of the translations alone.
#include "router/tools/tool_form.h"
#include "tests/router/api/scripted_parser.h"

namespace baton {

ToolForm ToolForm::OfTemplate(absl::string_view /*chat_template*/) { return {}; }
bool ToolForm::has_reasoning() const { return false; }
bool ToolForm::needs_special_tokens() const { return false; }
std::unique_ptr<AnswerParser> ToolForm::NewParser(const v1::ChatInput& /*chat*/, uint64_t /*seed*/,
                                                  int /*choice*/) const {
  return NewScriptedParser();
}

}  // namespace baton
