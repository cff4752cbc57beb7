// The interface of a subcommand of `baton`.
#pragma once

#include <string>

#include "common/flags/flags.h"

namespace baton {

// Single-threaded. main owns one of each subcommand.
class Command {
 public:
  virtual ~Command() = default;

  // Binds the command's flags and arguments to its members; called once.
  virtual void AddFlags(FlagSet& flags) = 0;
  // Does the work and returns the exit code. REQUIRES: `flags` are resolved.
  virtual int Run(const FlagSet& flags) = 0;
};

// The folder of this program, which also has the servers.
std::string ProgramFolder();

}  // namespace baton
