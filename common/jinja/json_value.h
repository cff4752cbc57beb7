// Values from JSON that a client sends.
#pragma once

#include "absl/status/statusor.h"
#include <nlohmann/json.hpp>

#include "common/jinja/value.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

// Makes a value of `json`: an object becomes a dict in the order of its keys. All its texts, keys
// too, and numbers are untrusted. How many items a list has may be trusted, as with the messages of
// a chat. An object with a member kJsonSourceKey (json_source.h) has its text as
// Dict::json_source. INVALID_ARGUMENT if it is nested too deep or is binary.
absl::StatusOr<Value> FromJson(Workspace& workspace, const nlohmann::ordered_json& json);

}  // namespace baton::jinja
