// The `baton` command: its subcommands, each of which is a *_command.cc.
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include <CLI/CLI.hpp>

#include "client/bench_engine_command.h"
#include "client/bench_serve_command.h"
#include "client/bench_transfer_command.h"
#include "client/command.h"
#include "client/run_command.h"
#include "client/serve_command.h"
#include "client/tokenize_command.h"
#include "common/rpc/flags.h"
#include "common/rpc/version.h"

namespace baton {
namespace {

// A command under its name.
class Subcommand {
 public:
  // Borrows `parent`.
  Subcommand(CLI::App& parent, const std::string& name, const std::string& description,
             std::unique_ptr<Command> command)
      : program_(absl::StrCat(parent.get_parent() == nullptr ? "baton " : "baton bench ", name)),
        app_(*parent.add_subcommand(name, description)),
        flags_(app_),
        command_(std::move(command)) {
    command_->AddFlags(app_, flags_);
  }
  bool parsed() const { return app_.parsed(); }
  int Run() {
    if (const absl::Status status = flags_.Resolve(); !status.ok()) {
      return ExitUsage(program_, status);
    }
    return command_->Run(flags_);
  }

 private:
  const std::string program_;
  CLI::App& app_;
  FlagSet flags_;
  const std::unique_ptr<Command> command_;
};

int Main(int argc, char** argv) {
  CLI::App app("Baton serves large language models with prefill and decode on separate workers.",
               "baton");
  app.require_subcommand(1);
  app.set_version_flag("--version", Version());
  std::list<Subcommand> subcommands;
  subcommands.emplace_back(app, "run", "Stream one answer, or chat when there is no prompt",
                           std::make_unique<RunCommand>());
  subcommands.emplace_back(app, "serve", "Serve a model on this machine: router and workers",
                           std::make_unique<ServeCommand>());
  subcommands.emplace_back(app, "tokenize", "Print the token ids of a text as a JSON array",
                           std::make_unique<TokenizeCommand>());
  CLI::App& bench = *app.add_subcommand("bench", "Measure speed");
  bench.require_subcommand(1);
  subcommands.emplace_back(bench, "engine", "Time prefill and decode, without servers",
                           std::make_unique<BenchEngineCommand>());
  subcommands.emplace_back(bench, "serve", "Put a load on a router and measure what clients see",
                           std::make_unique<BenchServeCommand>());
  subcommands.emplace_back(bench, "transfer",
                           "Time a KV cache's way between two processes on loopback",
                           std::make_unique<BenchTransferCommand>());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return ExitUsage("baton",
                     absl::InvalidArgumentError(absl::StrCat(error.what(), "; see --help")));
  }
  for (Subcommand& subcommand : subcommands) {
    if (subcommand.parsed()) return subcommand.Run();
  }
  return kExitUsage;  // not reached: one subcommand is required
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
