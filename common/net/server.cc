#include "common/net/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"

#include "common/access/access_table.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/free_memory.h"
#include "common/base/log.h"
#include "common/base/secret_mode.h"
#include "common/base/service_manager.h"
#include "common/base/status_macros.h"
#include "common/net/acceptor.h"
#include "common/net/access_check.h"
#include "common/net/call_metrics.h"
#include "common/net/certificate_metrics.h"
#include "common/net/compression.h"
#include "common/net/health_service.h"
#include "common/net/library_logs.h"
#include "common/net/memory_watch.h"
#include "common/net/metrics_server.h"
#include "common/net/reflection.h"
#include "common/net/refused_connections.h"
#include "common/rpc/deadline.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr absl::Duration kPollInterval = absl::Milliseconds(20);
constexpr absl::Duration kEndRestBefore = absl::Seconds(5);
// Time for idle connections to receive the GOAWAY and close.
constexpr absl::Duration kIdleConnections = absl::Milliseconds(500);
constexpr int kSignalExitBase = 128;

// A signal handler can reach only statics. The process's one ServerProcess owns these.
std::atomic<int> shutdown_event{-1};
std::atomic<int> signals_received{0};

void OnSignal(int signal) {
  if (signals_received.fetch_add(1) > 0) _exit(kSignalExitBase + signal);
  const uint64_t one = 1;
  const ssize_t written = write(shutdown_event.load(), &one, sizeof(one));
  static_cast<void>(written);
}

void OnForcedEnd(int signal) {
  constexpr char kWhy[] =
      "ended by force: what the process waits for did not return after --shutdown-timeout\n";
  const ssize_t written = write(STDERR_FILENO, kWhy, sizeof(kWhy) - 1);
  static_cast<void>(written);
  _exit(kSignalExitBase + signal);
}

// Ends the process by force if it still runs after `time`. A timer of the system does it: whatever
// the threads do, none of them has to help.
void EndByForceAfter(absl::Duration time) {
  if (time == absl::InfiniteDuration()) return;
  struct sigaction action {};
  action.sa_handler = OnForcedEnd;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval timer{.it_interval = {}, .it_value = absl::ToTimeval(time)};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// How often a peer may connect to --listen, which costs a handshake. The connections of who belongs
// there live long; where clients connect there is no such bound.
ConnectionRate::Options RateOfConnections(const ServerProcess::Options& options, bool secure) {
  if (!secure || !(options.internal || options.behind_front)) return {};
  return {.per_second = 10, .burst = 128};
}

// Memory for what clients' connections hold: a quarter of what is free, within these bounds.
size_t ConnectionMemoryBytes() {
  constexpr uint64_t kLeast = uint64_t{64} << 20, kMost = uint64_t{256} << 20;
  return std::clamp(FreeMemoryBytes() / 4, kLeast, kMost);
}

// The roles whose handshake succeeds; not given: all.
std::optional<RoleSet> WhoMayConnect(const ServerProcess::Options& options) {
  if (options.internal) return kWhoCallsWorkers;
  if (options.behind_front) return kWhoCallsBesideAFront;
  return std::nullopt;
}

void SetConnectionArguments(const ServerProcess::Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxHeaderBytes);
  if (!options.internal) {
    // Over it gRPC ends calls, whosever they are. KV caches on their way would count too, so the
    // workers' ports have no such bound.
    grpc::ResourceQuota quota("connections");
    quota.Resize(ConnectionMemoryBytes());
    builder.SetResourceQuota(quota);
  }
  for (const auto& [name, value] : kNoCompression) builder.AddChannelArgument(name, value);
  // For who connects and says nothing.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             ToMilliseconds(options.handshake_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             ToMilliseconds(kMinReceivedPingInterval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  const bool internal = options.internal;
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIME_MS,
      ToMilliseconds(internal ? kKeepaliveTime : options.client_keepalive_time));
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      ToMilliseconds(internal ? kKeepaliveTimeout : options.client_keepalive_timeout));
  // gRPC would send two pings on an idle connection, and no more.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

// A gRPC server and what accepts its connections.
struct Port {
  // Stops to accept, gives the calls `timeout` to end, and ends those that are left.
  void Shutdown(absl::Duration timeout) {
    acceptor->Stop();
    server->Shutdown(DeadlineAfter(timeout));
    server->Wait();
  }

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> door;
  std::unique_ptr<Acceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
};

// Starts a server on `address`, with reflection if `flags` allow it.
absl::StatusOr<std::unique_ptr<Port>> Listen(
    absl::string_view flag, const std::string& address, const ServerFlags& flags,
    const Acceptor::Options& options, const std::shared_ptr<grpc::ServerCredentials>& credentials,
    grpc::ServerBuilder& builder) {
  auto port = std::make_unique<Port>();
  BATON_ASSIGN_OR_RETURN(port->acceptor, Acceptor::Listen(flag, address, options));
  builder.SetOption(ReflectionOption(flags.reflection || IsLoopback(address)));
  port->door = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  port->server = builder.BuildAndStart();
  if (port->server == nullptr) {
    return absl::InternalError(absl::StrCat(flag, " ", address, ": gRPC starts no server"));
  }
  port->acceptor->Start([door = port->door.get()](int listener, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection;
    door->HandleNewConnection(&parameters);
  });
  return port;
}

// Refuses methods that are not served here, with the name of the program; gRPC's own refusal has no
// text.
class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  explicit UnknownMethods(const std::string& program) : program_(program) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Refusal(absl::UnimplementedError(
        absl::StrCat("this is ", program_, ", which has no method ", LogSafe(context->method()))));
  }

 private:
  struct Refusal final : grpc::ServerGenericBidiReactor {
    explicit Refusal(const absl::Status& status) { Finish(ToGrpcStatus(status)); }
    void OnDone() override { delete this; }
  };

  const std::string program_;
};

}  // namespace

struct ServerProcess::Rep {
  Rep(Options process_options, Credentials process_credentials, Metrics& process_metrics,
      int event_fd)
      : metrics(process_metrics),
        options(std::move(process_options)),
        credentials(std::move(process_credentials)),
        event(event_fd),
        calls(process_metrics),
        health(WithPort(options.health)) {}

  // The port is a condition of liveness once it is open.
  Health::Options WithPort(Health::Options health_options) const {
    health_options.live = [this] {
      const Acceptor* acceptor = listening.load();
      return acceptor == nullptr || acceptor->live();
    };
    return health_options;
  }

  Metrics& metrics;
  const Options options;
  const Credentials credentials;
  const int event;
  CallMetrics calls;                                 // metrics of the calls on `port`
  std::unique_ptr<Port> health_port;                 // null: there is none
  std::unique_ptr<Port> port;                        // null before Serve
  std::atomic<const Acceptor*> listening = nullptr;  // the acceptor of `port`
  MemoryWatch memory;                                // looks on the thread of `port`'s acceptor
  Health health;
  std::unique_ptr<MetricsServer> metrics_server;
  UnknownMethods unknown_methods{options.program};
  UnknownMethods unknown_health_methods{options.program};
  HealthService health_service;        // serves `port`
  HealthService health_service_alone;  // serves `health_port`
};

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Create(Options options,
                                                                     Metrics& metrics) {
  BATON_RETURN_IF_ERROR(BATON_START_FAILPOINTS());
  BATON_RETURN_IF_ERROR(ValidateServerFlags(options.flags));
  BATON_ASSIGN_OR_RETURN(
      Credentials credentials,
      Credentials::Create(options.flags.tls, kCertificatesPoll, WhoMayConnect(options)));
  if (credentials.secure()) WarnOfSecretMode("--tls-key", options.flags.tls.key_file);
  // A bad --listen is found now and not after the model is loaded.
  BATON_RETURN_IF_ERROR(
      CheckListenable("--listen", options.flags.listen, options.flags.reuse_port));
#ifdef NDEBUG
  // Debian's Abseil would look for cycles of locks at every lock, gRPC's too: an eighth of what a
  // request costs the router. Builds with assertions, as those of the tests, look for them.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
  RaiseDescriptorLimit();
  LogLibraryMessages();

  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return absl::ResourceExhaustedError("no file descriptor left; raise ulimit -n");
  auto process = std::unique_ptr<ServerProcess>(new ServerProcess(
      std::make_unique<Rep>(std::move(options), std::move(credentials), metrics, event)));
  Rep& rep = *process->rep_;
  if (rep.credentials.secure()) {
    AddCertificateMetrics(rep.credentials, rep.options.flags.tls, metrics);
  }
  if (rep.options.flags.metrics_vllm_names) metrics.ShowVllmNames();
  if (!rep.options.flags.metrics_listen.empty()) {
    BATON_ASSIGN_OR_RETURN(
        rep.metrics_server,
        MetricsServer::Start(
            rep.options.flags.metrics_listen, [&metrics] { return metrics.Scrape(); },
            MetricsServer::kTimeout, rep.options.flags.reuse_port));
  }
  if (!rep.options.flags.health_listen.empty()) {
    grpc::ServerBuilder builder;
    SetConnectionArguments(rep.options, builder);
    builder.RegisterService(&rep.health_service_alone);
    builder.RegisterCallbackGenericService(&rep.unknown_health_methods);
    BATON_ASSIGN_OR_RETURN(rep.health_port,
                           Listen("--health-listen", rep.options.flags.health_listen,
                                  rep.options.flags, {.reuse_port = rep.options.flags.reuse_port},
                                  grpc::InsecureServerCredentials(), builder));
    rep.health.Attach(&rep.health_service_alone);
  }
  shutdown_event = event;
  signals_received = 0;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  return process;
}

ServerProcess::ServerProcess(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

ServerProcess::~ServerProcess() {
  rep_->health.Detach(&rep_->health_service);
  rep_->health.Detach(&rep_->health_service_alone);
  for (Port* port : {rep_->port.get(), rep_->health_port.get()}) {
    if (port != nullptr) port->Shutdown(absl::ZeroDuration());
  }
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  shutdown_event = -1;
  close(rep_->event);
}

absl::Status ServerProcess::Serve(const std::vector<grpc::Service*>& services,
                                  const std::function<void(grpc::ServerBuilder&)>& customize) {
  grpc::ServerBuilder builder;
  SetConnectionArguments(rep_->options, builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.RegisterService(&rep_->health_service);
  builder.RegisterCallbackGenericService(&rep_->unknown_methods);
  rep_->calls.Watch(builder);
  if (customize) customize(builder);
  const std::shared_ptr<grpc::ServerCredentials> credentials = rep_->credentials.ForServer();
  if (rep_->credentials.secure()) {
    const TlsFlags& tls = rep_->options.flags.tls;
    credentials->SetAuthMetadataProcessor(std::make_shared<AccessCheck>(
        rep_->metrics, rep_->credentials.trust(),
        AccessCheck::HolderOfCertificate(
            {.clients_without_id = !tls.client_ca_file.empty(),
             .clients_without_certificate = tls.certificate_optional})));
  } else {
    LogInfo("no certificates are given: callers have no roles, and may call every method");
  }
  const std::string& address = rep_->options.flags.listen;
  const int connections = ConnectionsWithinDescriptorLimit();
  BATON_ASSIGN_OR_RETURN(
      rep_->port,
      Listen("--listen", address, rep_->options.flags,
             {.max_connections = connections,
              .max_connections_of_peer = IsLoopback(address) ? connections : connections / 2,
              .reuse_port = rep_->options.flags.reuse_port,
              .rate = RateOfConnections(rep_->options, rep_->credentials.secure()),
              .unacknowledged_timeout =
                  rep_->options.internal ? kKeepaliveTimeout : kClientUnacknowledgedTimeout,
              .memory = rep_->options.internal
                            ? std::function<MemoryLevel()>()
                            : [rep = rep_.get()] { return rep->memory.Look(SteadyNow()); },
              .refused = RefusedConnectionsCounter("grpc", rep_->metrics)},
             credentials, builder));
  rep_->listening = rep_->port->acceptor.get();
  rep_->health.Attach(&rep_->health_service);
  return absl::OkStatus();
}

Health& ServerProcess::health() { return rep_->health; }
const Credentials& ServerProcess::credentials() const { return rep_->credentials; }
MemoryLevel ServerProcess::memory_level() const { return rep_->memory.level(); }
std::string ServerProcess::listen_address() const {
  return rep_->port != nullptr ? rep_->port->acceptor->address() : "";
}
std::string ServerProcess::health_address() const {
  return rep_->health_port != nullptr ? rep_->health_port->acceptor->address() : "";
}
std::string ServerProcess::metrics_address() const {
  return rep_->metrics_server != nullptr ? rep_->metrics_server->address() : "";
}
std::string ServerProcess::advertised_address() const {
  return rep_->options.flags.advertise.empty() ? listen_address() : rep_->options.flags.advertise;
}

int ServerProcess::Run(const DrainHooks& hooks) {
  NotifyServiceManager(kServiceReady);
  pollfd event{.fd = rep_->event, .events = POLLIN, .revents = 0};
  while (poll(&event, 1, -1) <= 0) {
  }
  const absl::Duration timeout = rep_->options.flags.shutdown_timeout;
  NotifyServiceManager(kServiceStopping);
  LogInfo("draining for at most {}; a second signal ends at once", absl::FormatDuration(timeout));
  EndByForceAfter(timeout + hooks.forced_end);
  rep_->health.SetState(ServerState::kDraining);
  if (hooks.begin) hooks.begin();

  const absl::Time deadline = SteadyNow() + timeout;
  const absl::Time end_rest = deadline - std::min(kEndRestBefore, timeout / 2);
  const auto drained = [&] { return !hooks.drained || hooks.drained(); };
  while (!drained() && SteadyNow() < end_rest) absl::SleepFor(kPollInterval);
  if (hooks.end_rest) hooks.end_rest();
  while (!drained() && SteadyNow() < deadline) absl::SleepFor(kPollInterval);
  if (rep_->port != nullptr) {
    // gRPC waits for idle connections too, and a client that does not poll never closes its own.
    const bool nothing_runs = hooks.drained && hooks.drained();
    const absl::Duration rest = nothing_runs ? kIdleConnections : deadline - SteadyNow();
    rep_->listening = nullptr;  // it no longer accepts, and that is no reason to be killed
    rep_->port->Shutdown(std::max(rest, std::min(kIdleConnections, timeout)));
  }
  LogInfo("ended");
  return 0;
}

void ServerProcess::RequestShutdown() {
  const uint64_t one = 1;
  const ssize_t written = write(rep_->event, &one, sizeof(one));
  static_cast<void>(written);
}

}  // namespace baton
