// How an answer is read that may hold calls of tools and reasoning.
#pragma once

#include <memory>

#include "baton/v1/generation.pb.h"
#include "router/api/answer_format.h"

namespace baton {

// Leaves the markers of calls and reasoning in the text of the answer, where they are special
// tokens.
void LeaveMarkers(const ToolForm& tool_form, v1::GenerateRequest& request);

// The parser of a choice. The ids of its calls follow from the id of the HTTP request: those of
// two answers in one conversation differ, even with one seed.
std::unique_ptr<AnswerParser> ParserOf(const ApiContext& context, const v1::ChatInput& chat,
                                       int choice = 0);

}  // namespace baton
