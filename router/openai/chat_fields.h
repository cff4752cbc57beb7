// A chat in JSON: messages, tools, and how the chat template renders them, as OpenAI's chat API and
// vLLM's additions have them. Each function reads its fields and keeps the first error in `fields`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "google/protobuf/struct.pb.h"

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"
#include "router/tools/tool_table.h"

namespace baton {

// messages. A developer is a system, and a function a tool: what chat templates call them. Parts of
// text are joined by a newline, as vLLM and llama.cpp do.
void ReadMessages(JsonFields& fields, v1::ChatInput& chat);

// tools, tool_choice, parallel_tool_calls, and their old form, functions and function_call. Of
// allowed_tools only the allowed ones are kept. Tools of other types than function, custom and
// namespace are left out; a request that has no others is refused.
void ReadTools(JsonFields& fields, v1::ChatInput& chat, ToolTable& table);

// add_generation_prompt, chat_template_kwargs and reasoning_effort; refuses continue_final_message.
void ReadTemplateFields(JsonFields& fields, v1::ChatInput& chat);

// The content `name` of a message: a string, a list of parts of text, or absent ("").
std::string ReadContent(JsonFields& message, absl::string_view name);

// The arguments `name` of a call in the history. OpenAI's are JSON in a string, which is kept as it
// is; some clients send the JSON itself. Absent: "{}".
std::string ReadArguments(JsonFields& call, absl::string_view name);

void ToStruct(const nlohmann::ordered_json& object, google::protobuf::Struct& result);

}  // namespace baton
