// A server process for tests: prints its addresses on stdout once it serves.
#include <cstdio>

#include "absl/time/clock.h"

#include "common/net/server.h"
#include "tests/common/net/test_service.h"

int main(int argc, char** argv) {
  using namespace baton;
  ServerFlags flags;
  FlagSet flag_set("test-server", "Serves nothing of use.");
  AddServerFlags(flag_set, flags);
  bool hangs = false;
  flag_set.AddBool("hangs", hangs, "After the drain, wait for what does not return");
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
  const int code =
      (*server)->Run({.drained = [&] { return service.running() == 0; },
                      .end_rest = [&] { service.Stop(); },
                      .forced_end = hangs ? absl::Milliseconds(100) : absl::InfiniteDuration()});
  while (hangs) absl::SleepFor(absl::Hours(1));
  return code;
}
