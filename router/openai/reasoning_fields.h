// Turns a request's reasoning effort into variables of the chat template.
#pragma once

#include "absl/strings/string_view.h"

#include "baton/v1/generation.pb.h"
#include "router/api/json_fields.h"

namespace baton {

// The field `name`: none, minimal, low, medium, high, xhigh or max. Another value is an error that
// names the field. The variable reasoning_effort has the value; for none, the variable
// enable_thinking is false too. A variable that is set already stays: an explicit
// chat_template_kwargs goes first. REQUIRES: chat_template_kwargs was read.
void ReadEffort(JsonFields& fields, absl::string_view name, v1::ChatInput& chat);

// The object `name` of OpenAI's responses, such as {"effort": "low", "summary": "auto"}. Its effort
// is read as by ReadEffort.
void ReadReasoning(JsonFields& fields, absl::string_view name, v1::ChatInput& chat);

// The object `name` of Anthropic's messages. The type `disabled` means the effort none, `enabled`
// sets enable_thinking, `adaptive` sets nothing; another one is an error that names the field.
// REQUIRES: as ReadEffort; other fields of the effort were read.
void ReadThinking(JsonFields& fields, absl::string_view name, v1::ChatInput& chat);

}  // namespace baton
