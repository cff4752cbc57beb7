// The text that --help prints.
#pragma once

#include <optional>
#include <string>

#include "common/flags/command_facts.h"

namespace baton {

// What a command line asks for: --help without any of these, --help-all, or --help GROUP.
struct HelpRequest {
  bool all = false;
  std::optional<FlagGroup> group = std::nullopt;
};

// Returns the width of help for a terminal of this width: within [60, 100] columns, 80 for 0.
int HelpColumns(int terminal_columns);

// Returns the help of a command, in lines of at most `columns` characters, except that no word is
// broken. Plain help shows the flags that facts.first names and then the names of the groups. If it
// names none, plain help shows all flags.
std::string HelpText(const CommandFacts& facts, const HelpRequest& request, int columns);

}  // namespace baton
