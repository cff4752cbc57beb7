// Runs a parsed chat template.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "common/tokenizer/jinja_ast.h"
#include "common/tokenizer/jinja_text.h"
#include "common/tokenizer/jinja_value.h"

namespace baton::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// What the template writes. Errors name the template's line; raise_exception's text comes as
// INVALID_ARGUMENT, unchanged. REQUIRES: the values of `variables` belong to `workspace`.
absl::StatusOr<Text> Run(const Block& block, const Variables& variables, Workspace& workspace);

}  // namespace baton::jinja
