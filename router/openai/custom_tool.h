// Custom tools, which take a text in place of JSON arguments.
#pragma once

#include <string>

#include "router/api/json_fields.h"

namespace baton {

// Reads the `format` of a custom tool, {"type": "text"} or {"type": "grammar", "syntax": "lark" |
// "regex", "definition"}; chat has the last two in an object "grammar". Returns the JSON schema by
// which the model is shown the tool: an object with one string `input`. A regular expression to
// which the grammar library can hold a string is its pattern, so that a forced call matches it. Any
// other grammar is described to the model and not enforced. Keeps the first error in `custom`.
std::string ReadCustomParameters(JsonFields& custom);

}  // namespace baton
