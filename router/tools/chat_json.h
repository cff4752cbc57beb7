// Chats as chat templates want them: with tools, calls, results and reasoning.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"
#include "common/jinja/chat_template.h"
#include "router/tools/chat_shape.h"

namespace baton {

// The chat in OpenAI's shape. With the generic form, a system message (or the first message, if
// the template has none) describes the tools, calls are the text of their form, and results are
// messages of the user. Arguments keep their bytes where a template writes them as JSON. Those that
// are no JSON object stay text; a template that takes objects alone gets an empty one for nothing
// ("", null, []), else one that holds the text. Unknown ids of calls become nine letters and digits
// for Mistral's templates, which refuse others. Messages of a system or a developer stand where
// message_places.h puts them.
ChatJson ChatJsonOf(const v1::ChatInput& chat, const ChatShape& shape);

// The generic form's instructions for the model about its tools.
std::string GenericToolsText(const v1::ChatInput& chat);

}  // namespace baton
