// What every subcommand of `baton` is.
#pragma once

#include <string>

#include "common/flags/flags.h"

namespace baton {

// Single-threaded; main owns one of each.
class Command {
 public:
  virtual ~Command() = default;

  // Binds the command's flags and arguments to its members; called once.
  virtual void AddFlags(FlagSet& flags) = 0;
  // Does the work and returns the exit code. REQUIRES: `flags` are resolved.
  virtual int Run(const FlagSet& flags) = 0;
};

// The folder this program is in: the servers are beside it.
std::string ProgramFolder();

}  // namespace baton
