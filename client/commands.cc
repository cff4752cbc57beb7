#include "client/commands.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "bench/engine/bench_engine_command.h"
#include "bench/serve/bench_serve_command.h"
#include "bench/transfer/bench_transfer_command.h"
#include "client/certs/certs_command.h"
#include "client/doctor/doctor_command.h"
#include "client/keys_command.h"
#include "client/models/models_command.h"
#include "client/plan/plan_command.h"
#include "client/run_command.h"
#include "client/serve/serve_command.h"
#include "client/status/status_command.h"
#include "client/tokenize_command.h"

namespace baton {

Subcommand::Subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                       std::unique_ptr<Command> added)
    : program(absl::StrCat("baton ", parent.get_parent() == nullptr ? "" : parent.get_name() + " ",
                           name)),
      app(*parent.add_subcommand(name, description)),
      flags(app),
      command(std::move(added)) {
  command->AddFlags(flags);
}

std::list<Subcommand> AddCommands(CLI::App& app) {
  std::list<Subcommand> commands;
  commands.emplace_back(app, "run", "Stream one answer, or chat when there is no prompt",
                        std::make_unique<RunCommand>());
  commands.emplace_back(app, "serve", "Serve a model on this machine: router and workers",
                        std::make_unique<ServeCommand>());
  commands.emplace_back(app, "models",
                        "Say what model files are, what they take, and whether they are served",
                        std::make_unique<ModelsCommand>());
  commands.emplace_back(app, "doctor",
                        "Say what is wrong on this machine and in a fleet, and what to do",
                        std::make_unique<DoctorCommand>());
  commands.emplace_back(app, "status", "Show the routers and workers of a fleet",
                        std::make_unique<StatusCommand>(/*watch=*/false));
  commands.emplace_back(app, "top", "The same as status --watch",
                        std::make_unique<StatusCommand>(/*watch=*/true));
  commands.emplace_back(app, "tokenize", "Print the token ids of a text as a JSON array",
                        std::make_unique<TokenizeCommand>());
  CLI::App& certs = *app.add_subcommand("certs", "Make the certificates of a fleet");
  certs.require_subcommand(1);
  commands.emplace_back(certs, "init", "Make a certificate authority and the fleet's secret",
                        std::make_unique<CertsInitCommand>());
  commands.emplace_back(certs, "issue", "Make a role's certificate, signed by that authority",
                        std::make_unique<CertsIssueCommand>());
  commands.emplace_back(certs, "revoke", "Revoke certificates of that authority",
                        std::make_unique<CertsRevokeCommand>());
  CLI::App& bench = *app.add_subcommand("bench", "Measure speed");
  bench.require_subcommand(1);
  commands.emplace_back(bench, "engine", "Time prefill and decode, without servers",
                        std::make_unique<BenchEngineCommand>());
  commands.emplace_back(bench, "serve", "Put a load on a server and measure what clients see",
                        std::make_unique<BenchServeCommand>());
  commands.emplace_back(bench, "transfer",
                        "Time a KV cache's way between two processes on loopback",
                        std::make_unique<BenchTransferCommand>());
  commands.emplace_back(app, "plan",
                        "Say what a fleet would do with a load, and how large it must be",
                        std::make_unique<PlanCommand>());
  CLI::App& keys = *app.add_subcommand("keys", "Make, list and revoke API keys of a router");
  keys.require_subcommand(1);
  commands.emplace_back(keys, "new", "Print a new key and add its hash to the keys file",
                        std::make_unique<KeysNewCommand>());
  commands.emplace_back(keys, "list", "Print the keys' ids, tenants and limits",
                        std::make_unique<KeysListCommand>());
  commands.emplace_back(keys, "revoke", "Let a key be refused from now on",
                        std::make_unique<KeysRevokeCommand>());
  return commands;
}

CommandFacts FactsOfCommand(const CLI::App& app, const std::list<Subcommand>& subcommands) {
  for (const Subcommand& subcommand : subcommands) {
    if (&subcommand.app == &app) return subcommand.flags.Facts(subcommand.program);
  }
  const CLI::App* const parent = app.get_parent();
  return FactsOf(app, parent == nullptr ? app.get_name()
                                        : absl::StrCat(parent->get_name(), " ", app.get_name()));
}

std::vector<CommandFacts> FactsOfCommands(const CLI::App& app,
                                          const std::list<Subcommand>& subcommands) {
  std::vector<CommandFacts> facts = {FactsOfCommand(app, subcommands)};
  const CLI::App* last_group = &app;
  for (const Subcommand& subcommand : subcommands) {
    const CLI::App* const group = subcommand.app.get_parent();
    if (group != &app && group != last_group) facts.push_back(FactsOfCommand(*group, subcommands));
    last_group = group;
    facts.push_back(FactsOfCommand(subcommand.app, subcommands));
  }
  return facts;
}

}  // namespace baton
