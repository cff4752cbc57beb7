// The conversation of a request to /v1/responses.
#pragma once

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"
#include "router/tools/tool_table.h"

namespace baton {

// Reads instructions, input, tools, tool_choice and parallel_tool_calls. `input` is a string or a
// list of items: messages of text, reasoning, and calls of functions and custom tools with their
// outputs. Calls and reasoning join the assistant's message that they belong to, and a call of a
// tool of a namespace has the tool's flat name. Items of hosted tools are left out, which `table`
// notes. A developer is a system, as chat templates call one, and one that follows another joins
// it, for many templates know but one. Keeps the first error in `fields`.
void ReadResponsesInput(JsonFields& fields, v1::ChatInput& chat, ToolTable& table);

}  // namespace baton
