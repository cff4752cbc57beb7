// The parser of chat templates. A construct that the interpreter does not know is an error here.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/ast.h"

namespace baton::jinja {

constexpr size_t kMaxTemplateBytes = size_t{256} << 10;
constexpr int kMaxNesting = 100;  // levels of brackets in brackets and of tags in tags
// Height of an expression's tree. A chain such as a + b + c + ... adds one for each operator.
constexpr int kMaxExpressionDepth = 200;

// Parses the source of a template. Errors name the construct and its line. Only the functions
// raise_exception, namespace, range and strftime_now are known. A call of another function is an
// error, unless the template tests somewhere whether the function is defined (`f is defined`).
// `needs_today`, unless null: whether the template calls strftime_now without such a test.
absl::StatusOr<Block> Parse(absl::string_view source, bool* needs_today = nullptr);

}  // namespace baton::jinja
