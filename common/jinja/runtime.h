// Runs a parsed chat template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "common/jinja/ast.h"
#include "common/jinja/text.h"
#include "common/jinja/value.h"

namespace baton::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// What the template writes. Errors name the template's line; raise_exception's text comes as
// INVALID_ARGUMENT, unchanged. REQUIRES: the values of `variables` belong to `workspace`.
absl::StatusOr<Text> Run(const Block& block, const Variables& variables, Workspace& workspace);

}  // namespace baton::jinja
