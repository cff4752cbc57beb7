// Parses a chat template; whatever the interpreter would not know is an error here.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/ast.h"

namespace baton::jinja {

constexpr size_t kMaxTemplateBytes = size_t{256} << 10;
constexpr int kMaxNesting = 100;  // brackets in brackets, tags in tags
constexpr int kMaxExpressionDepth =
    200;  // a chain such as a + b + c + ... counts one for each part

// Errors name the construct and its line. Functions that are called must be known, unless the
// template asks somewhere whether they are defined (as `strftime_now is defined`): none beyond
// raise_exception, namespace and range is.
absl::StatusOr<Block> Parse(absl::string_view source);

}  // namespace baton::jinja
