// The answer's parts as the client knows the request's tools.
#pragma once

#include <memory>
#include <vector>

#include "router/tools/tool_form.h"
#include "router/tools/tool_table.h"

namespace baton {

// Returns a parser of the same answer whose calls have the names that the client gave the tools of
// `tools`, and the text of a custom tool in place of its arguments. Calls of tools that are not in
// the table stay as the model wrote them. REQUIRES: `tools` is filled.
std::unique_ptr<AnswerParser> ForClient(std::unique_ptr<AnswerParser> parser,
                                        std::shared_ptr<const ToolTable> tools);
// The same for each choice.
std::vector<std::unique_ptr<AnswerParser>> ForClient(
    std::vector<std::unique_ptr<AnswerParser>> parsers,
    const std::shared_ptr<const ToolTable>& tools);

}  // namespace baton
