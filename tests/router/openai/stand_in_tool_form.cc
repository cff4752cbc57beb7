// Stands in for the models' forms of tools, where only what a request asks of them is tested.
#include "absl/strings/match.h"

#include "tests/router/openai/test_tool_form.h"

namespace baton {

ToolForm ToolForm::OfTemplate(absl::string_view chat_template) {
  ToolForm form;
  form.has_reasoning_ = absl::StrContains(chat_template, "<think>");
  if (absl::StrContains(chat_template, "[TOOL_CALLS]")) form.kind_ = ToolFormKind::kMistral;
  return form;
}

bool ToolForm::has_reasoning() const { return has_reasoning_; }
bool ToolForm::needs_special_tokens() const { return kind_ == ToolFormKind::kMistral; }

std::unique_ptr<AnswerParser> ToolForm::NewParser(const v1::ChatInput& /*chat*/, uint64_t /*seed*/,
                                                  int choice) const {
  return NewTestParser(choice);
}

}  // namespace baton
