// The parser of command lines, whose errors name what is wrong and what was likely meant.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "common/flags/command_facts.h"

namespace baton {

// Gives `app`, a program, the flags --help and --help-all, which its commands inherit, and
// --version, which prints `version`.
void AddHelpFlags(CLI::App& app, const std::string& version);

// Parses the command line with `app`. --help and --version print their text and end the process;
// help is made of what `facts` returns for the command. INVALID_ARGUMENT has one line for people.
absl::Status ParseArguments(CLI::App& app, int argc, const char* const* argv,
                            const FactsSource& facts);

// Returns "; did you mean 'NAME'?" with the most similar of `names`; empty if none is similar.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names);

}  // namespace baton
