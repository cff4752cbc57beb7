// The validation of chats, for validate_request.cc.
#pragma once

#include "baton/v1/generation.pb.h"
#include "common/protocol/violations.h"

namespace baton {

// Whether the answer has to be calls of tools.
bool IsHeldToCalls(const v1::ToolChoice& choice);

// Adds what is wrong with the messages, the tools and the template's variables. Messages, calls and
// tools share the bytes of a prompt. Whether a schema can be enforced is for FormOf and the grammar
// to say; arguments of calls may be any text, since a model may have written them.
void CheckChat(const v1::ChatInput& chat, Violations& violations);

}  // namespace baton
