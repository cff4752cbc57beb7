// The tools of a chat in JSON, and the choice among them, as both of OpenAI's APIs have them. Each
// function reads its fields and keeps the first error in `fields`.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"
#include "router/tools/tool_table.h"

namespace baton {

// Where what belongs to a type stands.
enum class ToolStyle {
  kInside,  // chat: {"type": "function", "function": {"name"}}
  kBeside,  // responses: {"type": "function", "name"}
};

// Reads tools: functions, custom tools, and namespaces of both, whose tools get flat names. Tools
// of other types are left out. `table` has them, and the client's names.
void ReadToolList(JsonFields& fields, ToolStyle style, v1::ChatInput& chat, ToolTable& table);
// Reads functions, the old form of tools.
void ReadFunctionList(JsonFields& fields, v1::ChatInput& chat, ToolTable& table);
// Refuses a request whose tools were all left out. REQUIRES: the tools were read.
void RefuseHostedAlone(JsonFields& fields, const v1::ChatInput& chat, const ToolTable& table);

// Reads the choice in the field `name`. Of allowed_tools only the allowed ones are kept. REQUIRES:
// the tools were read.
void ReadToolChoice(JsonFields& fields, absl::string_view name, ToolStyle style,
                    v1::ChatInput& chat, ToolTable& table);

// Reads the name of an earlier call, with its namespace if it has one, as the name by which the
// model was shown the tool. That tool need not be among the request's any more.
std::string ReadCallName(JsonFields& call);
// Reads the id of a call in the field `name`.
std::string ReadCallId(JsonFields& call, absl::string_view name);

}  // namespace baton
