// The values of the keyword "format" that answers are held to.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// A regular expression whose matches are all strings of the format. Rare ones are left out if an
// expression cannot describe them: leap days and leap seconds, addresses with quotes, host names of
// more than three labels, a URI's user or address in brackets. nullopt: the format is not
// supported.
std::optional<std::string> FormatPattern(absl::string_view format);

// The supported formats, separated by commas.
std::string SupportedFormats();

}  // namespace baton
