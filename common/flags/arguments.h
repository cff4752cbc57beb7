// Parsing of a command line, with errors that name what is wrong in it and what was likely meant.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
}

namespace baton {

// Lets `app` parse. --help and --version are printed and end the process. INVALID_ARGUMENT is one
// line for people.
absl::Status ParseArguments(CLI::App& app, int argc, const char* const* argv);

// "; did you mean 'NAME'?" with the one of `names` that `name` is most like, or nothing where none
// is like it.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names);

}  // namespace baton
