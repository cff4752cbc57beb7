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

// The folder of this program, or of its launcher, which also has the servers.
std::string ProgramFolder();

// The path of `name`, a program that only Baton's programs start: beside this one, where builds have
// it, or in ../libexec/baton, where it is installed. It is beside this one if it is in neither.
std::string HelperProgram(const std::string& name);

}  // namespace baton
