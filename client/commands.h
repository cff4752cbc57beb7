// All subcommands of `baton`, under their names.
#pragma once

#include <list>
#include <memory>
#include <string>

#include <CLI/App.hpp>

#include "common/flags/command.h"
#include "common/flags/flags.h"

namespace baton {

struct Subcommand {
  std::string program;  // "baton bench engine"
  CLI::App& app;
  FlagSet flags;  // the flags of `app`
  std::unique_ptr<Command> command;

  // Adds it to `parent`, with its flags. Borrows `parent`.
  Subcommand(CLI::App& parent, const std::string& name, const std::string& description,
             std::unique_ptr<Command> added);
};

// Adds them to `app`, which outlives them.
std::list<Subcommand> AddCommands(CLI::App& app);

}  // namespace baton
