// The escapes of string literals in templates, which are Python's.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::jinja {

// `body` is what stands between the quotes. An unknown escape keeps its backslash, as in Python;
// \N{...} is an error.
absl::StatusOr<std::string> UnescapeStringLiteral(absl::string_view body);

// Appends the UTF-8 form of a code point. REQUIRES: point <= 0x10FFFF and no surrogate.
void AppendUtf8(uint32_t point, std::string& out);

}  // namespace baton::jinja
