// A form of reasoning and calls for tests of answers, simpler than any model's.
#pragma once

#include <memory>

#include "router/tools/tool_form.h"

namespace baton {

// Parses <think>reasoning</think>text<call NAME>arguments</call>; "call_CHOICE_CALL" are the ids.
std::unique_ptr<AnswerParser> NewTestParser(int choice);

}  // namespace baton
