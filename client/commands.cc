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
  commands.emplace_back(app, "run", "Generate an answer, or chat if no prompt is given",
                        std::make_unique<RunCommand>());
  commands.emplace_back(app, "serve", "Serve a model over gRPC and HTTP",
                        std::make_unique<ServeCommand>());
  commands.emplace_back(app, "models", "List local model files and whether Baton can serve them",
                        std::make_unique<ModelsCommand>());
  commands.emplace_back(app, "doctor", "Check this machine and a fleet for problems",
                        std::make_unique<DoctorCommand>());
  commands.emplace_back(app, "status", "Show the routers and workers of a fleet",
                        std::make_unique<StatusCommand>(/*watch=*/false));
  commands.emplace_back(app, "top",
                        "Show the routers and workers of a fleet, refreshed every second",
                        std::make_unique<StatusCommand>(/*watch=*/true));
  commands.emplace_back(app, "tokenize", "Print the token ids of a text as a JSON array",
                        std::make_unique<TokenizeCommand>());
  CLI::App& certs = *app.add_subcommand("certs", "Create and revoke the certificates of a fleet");
  certs.require_subcommand(1);
  commands.emplace_back(certs, "init", "Create a certificate authority and the fleet's secret",
                        std::make_unique<CertsInitCommand>());
  commands.emplace_back(certs, "issue", "Issue a certificate for a role",
                        std::make_unique<CertsIssueCommand>());
  commands.emplace_back(certs, "revoke", "Revoke certificates, or renew the revocation list",
                        std::make_unique<CertsRevokeCommand>());
  CLI::App& bench =
      *app.add_subcommand("bench", "Measure the speed of the engine, a server or KV transfers");
  bench.require_subcommand(1);
  commands.emplace_back(bench, "engine",
                        "Measure prefill and decode on this machine, without servers",
                        std::make_unique<BenchEngineCommand>());
  commands.emplace_back(bench, "serve", "Send a load to a server and measure what clients see",
                        std::make_unique<BenchServeCommand>());
  commands.emplace_back(bench, "transfer",
                        "Measure how fast a KV cache moves between two local processes",
                        std::make_unique<BenchTransferCommand>());
  commands.emplace_back(app, "plan", "Estimate how many workers a load needs",
                        std::make_unique<PlanCommand>());
  CLI::App& keys = *app.add_subcommand("keys", "Create, list and revoke API keys of a router");
  keys.require_subcommand(1);
  commands.emplace_back(keys, "new", "Create a key, print it, and add its hash to the keys file",
                        std::make_unique<KeysNewCommand>());
  commands.emplace_back(keys, "list", "List keys with their ids, tenants and limits",
                        std::make_unique<KeysListCommand>());
  commands.emplace_back(keys, "revoke", "Revoke a key, so that the router refuses it",
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
