// The conversation of a request to /v1/messages.
#pragma once

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"
#include "router/tools/tool_table.h"

namespace baton {

// Reads system, messages, tools and tool_choice. Contents are strings or lists of blocks: text,
// thinking, tool_use and tool_result, and documents and search results as far as they are text. A
// tool's result becomes a message of the role tool, and stands where its block does. Tools that are
// not custom are left out, and so are blocks of their calls and results, which `table` notes; a
// request that has no other tools is refused. Keeps the first error in `fields`, which names the
// message and the block.
//
// Left out of the system's text is the line "x-anthropic-billing-header: ...", which Claude Code
// puts at its head and changes with each request: no prefix of a prompt would be found again.
void ReadMessagesInput(JsonFields& fields, v1::ChatInput& chat, ToolTable& table);

}  // namespace baton
