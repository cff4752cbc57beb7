#include "client/baton_main.h"

#include <list>

#include <CLI/CLI.hpp>

#include "client/commands.h"
#include "common/base/standard_output.h"
#include "common/base/version.h"
#include "common/flags/arguments.h"
#include "common/flags/flags.h"
#include "common/net/library_logs.h"

namespace baton {

int BatonMain(int argc, char** argv) {
  IgnoreSigpipe();
  LogLibraryMessages();
  CLI::App app("Baton serves large language models with prefill and decode on separate workers.",
               "baton");
  app.require_subcommand(1);
  AddHelpFlags(app, Version());
  app.footer(
      "Each flag --some-name is also BATON_SOME_NAME in the environment, and a key of the TOML "
      "file "
      "that --config names.\n"
      "Exit codes: 0 done; 1 the request failed; 2 wrong flags, input or files; 74 standard output "
      "cannot be written; 130 interrupted; 141 nobody reads standard output any more.");
  std::list<Subcommand> subcommands = AddCommands(app);
  if (AsksForFacts(argc, argv)) {
    WriteOutput(FactsJson(FactsOfCommands(app, subcommands)));
    return 0;
  }
  const auto facts = [&](const CLI::App& asked) { return FactsOfCommand(asked, subcommands); };
  if (const absl::Status status = ParseArguments(app, argc, argv, facts); !status.ok()) {
    return ExitUsage("baton", status);
  }
  for (Subcommand& subcommand : subcommands) {
    if (!subcommand.app.parsed()) continue;
    const absl::Status status = subcommand.flags.Resolve();
    return status.ok() ? subcommand.command->Run(subcommand.flags)
                       : ExitUsage(subcommand.program, status);
  }
  return kExitUsage;  // not reached: one subcommand is required
}

}  // namespace baton
