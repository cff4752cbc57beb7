// The parser of command lines, whose errors name what is wrong and what was likely meant.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
}

namespace baton {

// Parses the command line with `app`. --help and --version print their text and end the process.
// INVALID_ARGUMENT has one line for people.
absl::Status ParseArguments(CLI::App& app, int argc, const char* const* argv);

// Returns "; did you mean 'NAME'?" with the most similar of `names`; empty if none is similar.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names);

}  // namespace baton
