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
  CLI::App app("Baton serves large language models with prefill and decode on separate workers",
               "baton");
  app.require_subcommand(1);
  AddHelpFlags(app, Version());
  app.footer(
      "Each flag --some-name can also be set by the environment variable BATON_SOME_NAME, or by "
      "the key some-name in the TOML file that --config names.\n"
      "Exit codes: 0 success; 1 the request or a check failed; 2 invalid flags, input or files; 74 "
      "standard output cannot be written; 130 interrupted; 141 standard output was closed by its "
      "reader.");
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
