// The table of all subcommands of `baton`.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "common/flags/command.h"
#include "common/flags/flags.h"

namespace baton {

struct Subcommand {
  std::string program;  // the words that call it, such as "baton bench engine"
  CLI::App& app;
  FlagSet flags;  // the flags of `app`
  std::unique_ptr<Command> command;

  // Adds the subcommand `name` with the flags of `added` to `parent`, which it borrows.
  Subcommand(CLI::App& parent, const std::string& name, const std::string& description,
             std::unique_ptr<Command> added);
};

// Adds every subcommand to `app`. REQUIRES: `app` outlives the list.
std::list<Subcommand> AddCommands(CLI::App& app);

// Returns the facts of `app`, which is `baton`, one of its groups, such as `baton certs`, or the app
// of one of the `subcommands`.
CommandFacts FactsOfCommand(const CLI::App& app, const std::list<Subcommand>& subcommands);

// Returns the facts of `app`, which is `baton`, of its groups, and of all its `subcommands`.
std::vector<CommandFacts> FactsOfCommands(const CLI::App& app,
                                          const std::list<Subcommand>& subcommands);

}  // namespace baton
