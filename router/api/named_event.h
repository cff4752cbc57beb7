// Server-sent events that have names, as /v1/responses and /v1/messages stream them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace baton {

// Appends "event: TYPE\ndata: EVENT\n\n", where TYPE is the event's field "type", a string. What is
// no UTF-8 is replaced.
void AppendNamedEvent(const nlohmann::ordered_json& event, std::string& out);

}  // namespace baton
