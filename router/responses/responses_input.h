// The conversation of a request to /v1/responses.
#pragma once

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"

namespace baton {

// Reads instructions, input, tools, tool_choice and parallel_tool_calls. `input` is a string or a
// list of items: messages of text, function_call, function_call_output and reasoning. Calls and
// reasoning join the assistant's message that they belong to. A developer is a system, as chat
// templates call one, and one that follows another joins it, for many templates know but one. Keeps
// the first error in `fields`.
void ReadResponsesInput(JsonFields& fields, v1::ChatInput& chat);

}  // namespace baton
