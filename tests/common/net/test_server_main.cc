// A server process for tests: prints its addresses on stdout once it serves.
#include <cstdio>

#include "common/net/server.h"
#include "tests/common/net/test_service.h"

int main(int argc, char** argv) {
  using namespace baton;
  ServerFlags flags;
  FlagSet flag_set("test-server", "Serves nothing of use.");
  AddServerFlags(flag_set, flags);
  flag_set.ParseOrExit(argc, argv);
  if (const absl::Status status = ValidateServerFlags(flags); !status.ok()) {
    return ExitUsage("test-server", status);
  }
  if (flags.check_config) return 0;
  Metrics metrics("router");
  TestService service;
  auto server = ServerProcess::Create({.program = "test-server", .flags = flags}, metrics);
  if (!server.ok()) return ExitUsage("test-server", server.status());
  if (const absl::Status status = (*server)->Serve({&service}); !status.ok()) {
    return ExitUsage("test-server", status);
  }
  (*server)->health().SetState(ServerState::kReady);
  std::printf("%s %s %s\n", (*server)->listen_address().c_str(),
              (*server)->health_address().c_str(), (*server)->metrics_address().c_str());
  std::fflush(stdout);
  return (*server)->Run(
      {.drained = [&] { return service.running() == 0; }, .end_rest = [&] { service.Stop(); }});
}
