// Prepares requests and parsers for answers that may contain tool calls and reasoning.
#pragma once

#include <memory>
#include <vector>

#include "baton/v1/generation.pb.h"
#include "router/api/answer_format.h"

namespace baton {

// Leaves the markers of calls and reasoning in the text of the answer, if they are special
// tokens, and asks for the ids that distinguish such a token from a text that is spelled like it.
void LeaveMarkers(const ToolForm& tool_form, v1::GenerateRequest& request);

// Makes one parser for each choice. The ids of their calls follow from the answer's id, so those of
// two answers differ, even with one seed and one x-request-id.
std::vector<std::unique_ptr<AnswerParser>> ParsersOf(const ApiContext& context,
                                                     const v1::ChatInput& chat, int choices);
// The parser of the only choice.
std::unique_ptr<AnswerParser> ParserOf(const ApiContext& context, const v1::ChatInput& chat);

}  // namespace baton
