// Arguments of a call that a client sends as a JSON object.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace baton {

// The text of the object, with a space behind each comma and colon. Most models write calls so, and
// the text of a call in a prompt should be the one that the model wrote: a worker may hold it.
std::string ArgumentsText(const nlohmann::ordered_json& object);

}  // namespace baton
