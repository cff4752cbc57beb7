// The escape sequences of string literals in templates, which are those of Python.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::jinja {

// Returns the value of a string literal; `body` is the text between the quotes. An unknown escape
// keeps its backslash, as in Python. \N{...} is an error.
absl::StatusOr<std::string> UnescapeStringLiteral(absl::string_view body);

// Appends the UTF-8 form of a code point. REQUIRES: point <= 0x10FFFF and is no surrogate.
void AppendUtf8(uint32_t point, std::string& out);

}  // namespace baton::jinja
