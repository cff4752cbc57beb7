#include "router/router_main.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/log_banner.h"
#include "common/base/progress_line.h"
#include "common/base/standard_output.h"
#include "common/base/version.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/model_sha256.h"
#include "common/hugging_face/open_model_file.h"
#include "common/net/acceptor.h"
#include "common/net/refused_connections.h"
#include "common/net/server.h"
#include "common/protocol/sampling_defaults.h"
#include "common/rpc/limits.h"
#include "router/access_log/access_log.h"
#include "router/front/front_socket.h"
#include "router/http/http_server.h"
#include "router/router.h"
#include "router/router_flags.h"
#include "router/trace/tracer.h"
#include "router/web/web_metrics.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton-router";
// How long the spans of the last requests may take to be written and sent, when all else has ended.
constexpr absl::Duration kLastTraces = absl::Seconds(2);
// How long the last lines of the access log may take.
constexpr absl::Duration kLastLines = absl::Seconds(1);
// How long after --shutdown-timeout a text that is being tokenised, or another thread that does not
// return, may hold up the end.
constexpr absl::Duration kForcedEnd = absl::Seconds(5);
// Allocations of this size and more, such as long bodies and answers, are mappings of their own and
// go back to the system as soon as they are freed. By default glibc raises its threshold with each
// one that is freed, and then takes such allocations from heaps, which keep freed memory below the
// last allocation in use.
constexpr int kMmapThresholdBytes = 256 << 10;

// Opens the model with its tensors, or, if it has none that can be read, without.
absl::StatusOr<GgufFile> OpenModel(const std::string& path) {
  absl::StatusOr<GgufFile> whole = OpenModelFile(path, GgufFile::Part::kUnread);
  if (whole.ok()) return whole;
  absl::StatusOr<GgufFile> metadata = OpenModelFile(path, GgufFile::Part::kTokenizer);
  if (metadata.ok()) {
    LogInfo("--model has no weights to compare those of workers with: {}",
            LogSafe(whole.status().message()));
  }
  return metadata;
}

absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(const RouterFlags& flags) {
  absl::StatusOr<GgufFile> file = OpenModel(flags.model);
  if (!file.ok()) {
    return absl::Status(file.status().code(), absl::StrCat("--model: ", file.status().message()));
  }
  if (!flags.model_sha256.empty()) {
    ProgressLine line("checking the model file");
    const std::string digest = file->Digest([&line](double done) { line.Tick(done); });
    const absl::Status status = CheckModelSha256(flags.model_sha256, digest, flags.model);
    if (!status.ok()) return status;
  }
  absl::StatusOr<v1::SamplingParams> sampling = DefaultSampling(*file, flags.sampling);
  if (!sampling.ok()) return sampling.status();
  return ServedModel::Load(*file, flags.names, *std::move(sampling));
}

// Null without --front-socket.
absl::StatusOr<std::unique_ptr<FrontSocket>> OpenFront(const RouterFlags& flags) {
  if (flags.front.path.empty()) return nullptr;
  return FrontSocket::Listen(flags.front);
}

// Null without --http-listen.
absl::StatusOr<std::unique_ptr<HttpServer>> ListenForHttp(const RouterFlags& flags,
                                                          const ServerProcess& process,
                                                          Metrics& metrics) {
  if (flags.http_listen.empty()) return nullptr;
  // gRPC may have five eighths of the descriptors; this leaves some to the rest.
  const int connections = std::max(1, ConnectionsWithinDescriptorLimit() * 2 / 5);
  HttpServer::Options options = flags.http;
  options.acceptor = {
      .max_connections = connections,
      .max_connections_of_peer = IsLoopback(flags.http_listen) ? connections : connections / 2,
      .reuse_port = flags.server.reuse_port,
      .memory = [&process] { return process.memory_level(); },
      .refused = RefusedConnectionsCounter("http", metrics)};
  return HttpServer::Listen("--http-listen", flags.http_listen, process.credentials(),
                            flags.server.tls.certificate_optional, options);
}

// The name by which people distinguish the routers of a fleet.
std::string NameOf(const RouterFlags& flags) {
  char host[256] = {};
  const absl::StatusOr<HostPort> listen = ParseHostPort(flags.server.listen);
  if (gethostname(host, sizeof(host) - 1) != 0 || !listen.ok()) return flags.server.listen;
  return absl::StrCat(host, ":", listen->port);
}

absl::StatusOr<FleetSecret> LoadSecret(const RouterFlags& flags) {
  if (!flags.fleet_secret_file.empty()) {
    absl::StatusOr<FleetSecret> secret = FleetSecret::Read(flags.fleet_secret_file);
    if (secret.ok()) return secret;
    return absl::InvalidArgumentError(
        absl::StrCat("--fleet-secret-file ", secret.status().message()));
  }
  absl::Status why = absl::InvalidArgumentError("--fleet-secret-file is not given");
  if (IsLoopback(flags.server.listen)) {
    absl::StatusOr<FleetSecret> secret = FleetSecret::OfThisUser();
    if (secret.ok()) return secret;
    why = secret.status();
  }
  LogWarning("prefixes that other routers, or this one before, let workers cache are not found: {}",
             LogSafe(why.message()));
  return FleetSecret::Random();
}

// The keys of clients; null without --api-keys and --serve-key-file. They outlive the router.
absl::StatusOr<std::unique_ptr<ApiKeys>> LoadKeys(const RouterFlags& flags, Metrics& metrics) {
  if (!flags.has_keys()) return nullptr;
  return ApiKeys::Load(
      ApiKeys::Files{.api_keys = flags.api_keys, .serve_keys = flags.serve_key_file}, metrics);
}

// Null if nothing is traced.
absl::StatusOr<std::unique_ptr<Tracer>> StartTracer(const RouterFlags& flags,
                                                    const std::string& model, Metrics& metrics) {
  if (!flags.trace.on()) return nullptr;
  return Tracer::Start(flags.trace, flags.router.name, model, metrics);
}

// Warns of what the flags open to other machines.
void WarnOfOpenDoors(const RouterFlags& flags) {
  std::vector<std::string> open;  // addresses beyond loopback
  for (const std::string* address : {&flags.server.listen, &flags.http_listen}) {
    if (!address->empty() && !IsLoopback(*address)) open.push_back(*address);
  }
  if (flags.router.insecure && !flags.has_keys() && !open.empty()) {
    LogWarning(
        "--insecure: every client that reaches {} may call without a key, in plain text; with "
        "--api-keys or --serve-key-file clients need one",
        absl::StrJoin(open, " or "));
  }
  if (flags.router.insecure && flags.has_keys()) {
    LogWarning(
        "--insecure: API keys of other machines' clients come in plain text, and others on the "
        "network can read them; operators' keys are taken on this machine only");
  }
  const std::vector<std::string>& hosts = flags.router.http_hosts.names;
  if (std::find(hosts.begin(), hosts.end(), "*") != hosts.end()) {
    LogWarning(
        "--http-allow-host=*: a page of any site can call this router without a key, from any "
        "browser that reaches the router");
  }
}

// Null without --access-log.
absl::StatusOr<std::unique_ptr<AccessLog>> StartAccessLog(const RouterFlags& flags,
                                                          Metrics& metrics) {
  if (!flags.access_log.on()) return nullptr;
  return AccessLog::Start(flags.access_log, metrics);
}

// `http` may be null.
DrainHooks HooksOf(Router& router, HttpServer* http) {
  const auto begin = [&router, http] {
    router.RefuseNew();
    if (http != nullptr) http->Drain();
  };
  // An answer over HTTP ends when it is written, which is later than its requests do.
  const auto drained = [&router, http] {
    return router.RunningRequests() == 0 && (http == nullptr || http->unfinished_answers() == 0);
  };
  return {.begin = begin,
          .drained = drained,
          .end_rest = [&router] { router.EndAll(); },
          .forced_end = kForcedEnd};
}

}  // namespace

int RouterMain(int argc, char** argv) {
  IgnoreSigpipe();
  mallopt(M_MMAP_THRESHOLD, kMmapThresholdBytes);
  RouterFlags flags;
  FlagSet flag_set(kProgram, "Route requests to prefill and decode workers, over gRPC and HTTP");
  flags.AddTo(flag_set);
  flag_set.ParseOrExit(argc, argv);
  if (absl::Status status = flags.Finish(); !status.ok()) return ExitUsage(kProgram, status);
  if (absl::Status status = InitLogging("router", flags.server.log_level, flags.server.log_format);
      !status.ok()) {
    return ExitUsage(kProgram, status);
  }
  absl::StatusOr<std::unique_ptr<ServedModel>> model = LoadModel(flags);
  if (!model.ok()) return ExitUsage(kProgram, model.status());
  absl::StatusOr<FleetSecret> secret = LoadSecret(flags);
  if (!secret.ok()) return ExitUsage(kProgram, secret.status());
  flags.router.fleet_secret = *std::move(secret);
  Metrics metrics("router");
  auto keys = LoadKeys(flags, metrics);
  if (!keys.ok()) return ExitUsage(kProgram, keys.status());
  flags.router.keys = keys->get();
  if (flags.server.check_config) return 0;
  if (!flags.http_listen.empty()) {
    // Looked up here too, where SIGTERM still ends the process at once: DNS may be silent.
    const absl::Status status =
        CheckListenable("--http-listen", flags.http_listen, flags.server.reuse_port);
    if (!status.ok()) return ExitUsage(kProgram, status);
  }

  WarnOfOpenDoors(flags);
  const LaterSystem later_system = (*model)->later_system();
  LogInfo("probed the chat template: mid_conversation_system_messages={} text_goes_to=\"{}\"",
          NameOf(later_system),
          later_system == LaterSystem::kKept ? "its own place" : "the message before");
  LogInfo("sampling of requests that set none: {}",
          (*model)->default_sampling().ShortDebugString());
  metrics.SetModelName((*model)->name());
  metrics.AddInfo("baton_config_info", "What this process was started with; always 1.",
                  {{"policy", flags.policy}, {"disaggregate", flags.disaggregate}});
  flags.router.name = NameOf(flags);
  auto tracer = StartTracer(flags, (*model)->name(), metrics);  // outlives the router
  if (!tracer.ok()) return ExitUsage(kProgram, tracer.status());
  flags.router.tracer = tracer->get();
  auto access_log = StartAccessLog(flags, metrics);  // outlives router and HTTP server
  if (!access_log.ok()) return ExitUsage(kProgram, access_log.status());
  flags.router.access_log = access_log->get();
  // The router's last answers go through its HTTP server.
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<Router> router;  // outlives the server that calls it
  std::atomic<Router*> ready_router = nullptr;
  const auto when = [&ready_router](bool (Router::*condition)() const) {
    return [&ready_router, condition] {
      const Router* r = ready_router.load();
      return r != nullptr && (r->*condition)();
    };
  };
  auto process = ServerProcess::Create(
      {.program = kProgram,
       .flags = flags.server,
       .health = {.progress = nullptr,
                  .ready = when(&Router::Ready),
                  .services = {"baton.v1.GenerationService"},
                  .conditions = {{kAllWorkersHealth, when(&Router::AllWorkersReady)}}},
       .behind_front = !flags.front.path.empty()},
      metrics);
  if (!process.ok()) return ExitUsage(kProgram, process.status());
  auto listening = ListenForHttp(flags, **process, metrics);
  if (!listening.ok()) return ExitUsage(kProgram, listening.status());
  http = *std::move(listening);
  if (http != nullptr) AddHttpGauges(*http, metrics);
  flags.router.short_of_memory = [&process] { return (*process)->short_of_memory(); };
  router = std::make_unique<Router>(**model, flags.router, (*process)->credentials(), metrics);
  ready_router.store(router.get());
  auto front = OpenFront(flags);  // ends before the server, to which it gives connections
  if (!front.ok()) return ExitUsage(kProgram, front.status());
  const auto add_front = [&](grpc::ServerBuilder& builder) {
    if (*front != nullptr) (*front)->AddTo(builder, metrics, (*process)->credentials().trust());
  };
  if (absl::Status status = (*process)->Serve({&router->service()}, add_front); !status.ok()) {
    front->reset();
    process->reset();
    return ExitUsage(kProgram, status);
  }
  if (*front != nullptr) (*front)->Start();
  if (http != nullptr) http->Start(router->http_handler());
  LogBanner(absl::StrCat("baton-router ", Version(), ": model ", (*model)->name(), " at ",
                         (*process)->listen_address(), http != nullptr ? "\nHTTP at " : "",
                         http != nullptr ? http->address() : ""));
  (*process)->health().SetState(ServerState::kReady);
  const int code = (*process)->Run(HooksOf(*router, http.get()));
  ready_router.store(nullptr);
  if (http != nullptr) http->Close();
  front->reset();
  process->reset();
  router.reset();
  // A disk, a reader or a collector that does not answer does not hold up the end.
  if (*access_log != nullptr && !(*access_log)->Close(kLastLines)) std::_Exit(code);
  if (*tracer != nullptr && !(*tracer)->Close(kLastTraces)) std::_Exit(code);
  return code;
}

}  // namespace baton
