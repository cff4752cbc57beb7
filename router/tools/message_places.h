// Where the messages of a chat stand in what a chat template renders.
#pragma once

#include <nlohmann/json.hpp>

#include "router/tools/chat_shape.h"

namespace baton {

// Moves system and developer messages to where the template renders them. `messages` is an array of
// objects with the strings "role" and "content". A client that only appends to its chat, and asks
// for an answer after messages of a user, a tool or a system, keeps the beginning of its prompt.
//
// Those at the head become one system message. If the template does not keep that, the text goes
// before the first message of the user.
//
// Those behind another message stay, as system messages, if the template keeps them. If not, the
// text is appended to the message before it, if that is the user's or a tool's result; else it goes
// before the next message, if that is the user's or a tool's result; else it becomes a message of
// the user.
//
// Messages of the user in a row become one if the template refuses them. Texts are joined by an
// empty line. Linear in the size of the messages.
void PlaceMessages(const ChatShape& shape, nlohmann::ordered_json& messages);

}  // namespace baton
