// The text of lists and dicts.
#pragma once

#include "absl/status/statusor.h"

#include "common/jinja/value.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

// Writes a value as Python's repr() does: ['a', {'b': None}]. A tuple is written as a list, which
// it is here. Text of messages stays untrusted. An error for what has no text itself.
absl::StatusOr<const Text*> Repr(Workspace& workspace, const Value& value);

}  // namespace baton::jinja
