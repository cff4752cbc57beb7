// Chats as chat templates want them: with tools, calls, results and reasoning.
#pragma once

#include <string>

#include "baton/v1/generation.pb.h"
#include "common/jinja/chat_template.h"
#include "router/tools/tool_form.h"

namespace baton {

// What the templates of one model want.
struct ChatShape {
  ToolFormKind kind = ToolFormKind::kGeneric;
  bool has_system = true;       // the template renders system messages
  bool text_arguments = false;  // a call's arguments are to be the JSON's text, not an object
  bool takes_text = true;       // they may be a text, if they are no object
};

// Finds out by rendering small chats.
ChatShape ShapeOf(const ChatTemplate& chat_template, ToolFormKind kind,
                  const ChatTemplateOptions& options);

// The chat in OpenAI's shape. With the generic form, a system message (or the first message, where
// the template has none) describes the tools, calls are the text of their form, and results are
// messages of the user. Arguments that are no JSON object stay text; a template that takes objects
// alone gets an empty one for nothing ("", null, []), else one that holds the text. Unknown ids of
// calls become nine letters and digits for Mistral's templates, which refuse others.
ChatJson ChatJsonOf(const v1::ChatInput& chat, const ChatShape& shape);

// What the generic form tells the model of its tools.
std::string GenericToolsText(const v1::ChatInput& chat);

}  // namespace baton
