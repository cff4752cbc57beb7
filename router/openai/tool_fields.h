// The tools of a chat in JSON, and the choice among them, as both of OpenAI's APIs have them. Each
// function reads its fields and keeps the first error in `fields`.
#pragma once

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"

namespace baton {

// Where what belongs to a type stands.
enum class ToolStyle {
  kInside,  // chat: {"type": "function", "function": {"name"}}
  kBeside,  // responses: {"type": "function", "name"}
};

// {"name", "description", "parameters"}; any of the last two may be absent.
v1::Tool ReadFunction(JsonFields& function);

// tools.
void ReadToolList(JsonFields& fields, ToolStyle style, v1::ChatInput& chat);
// functions, the old form of tools.
void ReadFunctionList(JsonFields& fields, v1::ChatInput& chat);

// The choice in the field `name`. Of allowed_tools only the allowed ones are kept. REQUIRES: the
// tools were read.
void ReadToolChoice(JsonFields& fields, absl::string_view name, ToolStyle style,
                    v1::ChatInput& chat);

}  // namespace baton
