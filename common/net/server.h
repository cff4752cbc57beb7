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

#include "common/certificates/credentials.h"
#include "common/net/health.h"
#include "common/net/memory_watch.h"
#include "common/net/metrics.h"
#include "common/net/server_flags.h"
#include "common/rpc/limits.h"

namespace baton {

// Keepalive pings to clients: a connection whose client's machine is gone ends within 100 s. An
// idle client of gRPC answers within 5 s, since it reads that seldom.
inline constexpr absl::Duration kClientKeepaliveTime = absl::Seconds(60);
inline constexpr absl::Duration kClientKeepaliveTimeout = absl::Seconds(30);
// How long data may stay unacknowledged on a client's connection.
inline constexpr absl::Duration kClientUnacknowledgedTimeout = absl::Seconds(60);

// What a server does while it drains. The hooks are called on the thread of Run(), may be empty,
// and must not block.
struct DrainHooks {
  std::function<void()> begin{};    // refuses new calls; readiness is false already
  std::function<bool()> drained{};  // returns whether nothing runs any more; polled every 20 ms
  // Ends calls that still run, Watch streams too. Called once: when drained, or 5 s before the end
  // of --shutdown-timeout (after half of it, if it is shorter than 10 s).
  std::function<void()> end_rest{};
  // A process that still runs this long after --shutdown-timeout, since something that it waits for
  // does not return, is ended by force, with a line on stderr and exit code 142. Infinite: never.
  absl::Duration forced_end = absl::InfiniteDuration();
};

// The server of a process, which has only one, since it takes SIGTERM and SIGINT. Create, Serve and
// Run belong to one thread; the accessors and RequestShutdown are thread-safe.
class ServerProcess {
 public:
  struct Options {
    std::string program;  // name of the program in messages, such as "baton-router"
    ServerFlags flags{};
    Health::Options health{};
    // Only Baton's own servers call this one: with certificates nobody else may connect
    // (kWhoCallsWorkers), and nobody often; a peer that falls silent is dropped within 3 s.
    bool internal = false;
    // Clients come by a front, which has a way of its own: with certificates only who has something
    // to call beside it (kWhoCallsBesideAFront) may connect to --listen, and not often.
    bool behind_front = false;
    // How long a new connection may take until both sides have introduced themselves.
    absl::Duration handshake_timeout = kHandshakeTimeout;
    // After how long without a byte from a client it is pinged, and how long it may take to answer
    // before its connection is closed. Not used if `internal`, whose pings come sooner.
    absl::Duration client_keepalive_time = kClientKeepaliveTime;
    absl::Duration client_keepalive_timeout = kClientKeepaliveTimeout;
  };

  // Opens --health-listen and --metrics-listen, and takes the signals. An error is one line for
  // people that names flag, address and remedy; the caller exits with kExitUsage. Borrows
  // `metrics`.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Create(Options options, Metrics& metrics);
  // Shuts all servers down at once and waits until their calls have ended.
  ~ServerProcess();

  // Opens --listen with `services` (borrowed until the end of this), reflection and health.
  // `customize` may change the builder (thread counts, raw services) before it is started.
  absl::Status Serve(const std::vector<grpc::Service*>& services,
                     const std::function<void(grpc::ServerBuilder&)>& customize = nullptr);

  Health& health();
  const Credentials& credentials() const;
  // Whether nothing new is to be taken, for want of memory. False if only Baton's own servers call
  // this one: what they send is bounded, and a worker's memory is full of its model.
  bool short_of_memory() const { return memory_level() != MemoryLevel::kEnough; }
  MemoryLevel memory_level() const;

  // The bound addresses, with the real port if the flag said 0. Empty without the flag. The gRPC
  // server's is known after Serve.
  std::string listen_address() const;
  std::string health_address() const;
  std::string metrics_address() const;
  // The address at which others reach this server: --advertise, or else the bound address.
  // REQUIRES: Serve has succeeded.
  std::string advertised_address() const;

  // Notifies a service manager that the process is ready, and later that it stops
  // (service_manager.h).
  // Waits for the first SIGTERM, SIGINT or RequestShutdown(), then drains for at most
  // --shutdown-timeout, and returns the exit code. A second signal ends the process at once.
  int Run(const DrainHooks& hooks);
  // Does what a first signal does. Thread-safe.
  void RequestShutdown();

 private:
  struct Rep;
  explicit ServerProcess(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
