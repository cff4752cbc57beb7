// A Baton process: its gRPC server, its health and metrics ports, and its end.
//
//   int main(int argc, char** argv) {
//     flags.ParseOrExit(argc, argv);                      // --check-config: validate, return 0
//     auto server = ServerProcess::Create(...);           // health and metrics answer from here on
//     ... load the model ...
//     status = (*server)->Serve({&service, ...});         // gRPC answers from here on
//     (*server)->health().SetState(ServerState::kReady);
//     return (*server)->Run(hooks);                       // until SIGTERM or SIGINT, then drains
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_builder.h"

#include "common/net/credentials.h"
#include "common/net/health.h"
#include "common/net/metrics.h"
#include "common/net/server_flags.h"

namespace baton {

// How a server ends. All are called on the thread of Run(), may be empty, and must not block.
struct DrainHooks {
  std::function<void()> begin{};    // refuse what is new: readiness is false already
  std::function<bool()> drained{};  // polled every 20 ms: nothing runs any more
  // Once: when drained, or 5 s before --shutdown-timeout (half of it if shorter). Ends what still
  // runs, Watch streams too.
  std::function<void()> end_rest{};
};

// One of them a process (it takes SIGTERM and SIGINT). Create, Serve and Run belong to one thread;
// the accessors may be used from any.
class ServerProcess {
 public:
  struct Options {
    std::string program;  // "baton-router": named in messages
    ServerFlags flags{};
    Health::Options health{};
    // Only Baton's own parts call: a peer that falls silent is dropped within 3 s.
    bool internal = false;
  };

  // Opens --health-listen and --metrics-listen, takes the signals. Errors are one line for people
  // that names flag, address and remedy; the caller exits with kExitUsage. Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Create(Options options, Metrics& metrics);
  // Shuts everything down at once.
  ~ServerProcess();

  // Opens --listen with `services` (borrowed until the end of this), reflection and health.
  // `customize` may change the builder (thread counts, raw services) before it is started.
  absl::Status Serve(const std::vector<grpc::Service*>& services,
                     const std::function<void(grpc::ServerBuilder&)>& customize = nullptr);

  Health& health();
  const Credentials& credentials() const;

  // As bound: with the real port where the flag said 0. Empty without the flag.
  std::string listen_address() const;  // after Serve
  std::string health_address() const;
  std::string metrics_address() const;
  // --advertise, or else the bound address: where others reach this server.
  std::string advertised_address() const;  // after Serve

  // Returns the exit code after the first SIGTERM, SIGINT or RequestShutdown(), once drained or
  // when --shutdown-timeout has passed. A second signal ends the process at once.
  int Run(const DrainHooks& hooks);
  // As a signal. From any thread.
  void RequestShutdown();

 private:
  struct Rep;
  explicit ServerProcess(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
