// The treatment of a chat's messages by the chat templates of one model.
#pragma once

#include "common/jinja/chat_template.h"
#include "router/tools/tool_form.h"

namespace baton {

// What a template makes of a system message in mid-conversation, behind another message.
enum class LaterSystem {
  kKept,    // renders it in its place
  kMoved,   // renders it in another place, or leaves out its own default at the head
  kLost,    // leaves its text out
  kRaises,  // fails with an error
};

struct ChatShape {
  ToolFormKind kind = ToolFormKind::kGeneric;
  bool has_system = true;             // the template keeps a system message at the head of a chat
  bool has_system_with_tools = true;  // the same of chats with tools
  bool text_arguments = false;        // arguments of calls are passed as text, not as an object
  bool takes_text = true;             // they may be a text, if they are no object
  // Other values than kKept: message_places.h puts the text of such messages elsewhere.
  LaterSystem later_system = LaterSystem::kKept;
  bool takes_turns = false;  // the template refuses two messages of the user in a row
};

// Finds the shape by rendering small chats, of which each text is a word that no template writes.
// A template counts as the worst that one of them shows; if it renders none of them, system
// messages in mid-conversation count as kRaises.
ChatShape ShapeOf(const ChatTemplate& chat_template, ToolFormKind kind,
                  const ChatTemplateOptions& options);

// "kept", "moved", "lost" or "raises".
const char* NameOf(LaterSystem later_system);

}  // namespace baton
