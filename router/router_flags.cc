#include "router/router_flags.h"

#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/certificates/credentials.h"
#include "common/flags/command.h"
#include "common/flags/flag_group.h"
#include "common/gguf/model_sha256.h"
#include "common/net/door_flags.h"
#include "common/net/model_name_flags.h"
#include "router/fleet/push_address.h"

namespace baton {
namespace {

absl::Status SetDisaggregation(const std::string& disaggregate, PlacementOptions& placement) {
  if (disaggregate == "auto") {
    placement.disaggregation = Disaggregation::kAuto;
  } else if (disaggregate == "always") {
    placement.disaggregation = Disaggregation::kAlways;
  } else if (disaggregate == "never") {
    placement.disaggregation = Disaggregation::kNever;
  } else if (absl::SimpleAtoi(disaggregate, &placement.local_below_tokens)) {
    placement.disaggregation = Disaggregation::kByLength;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("--disaggregate: must be auto, always, never or a number of tokens, not '",
                     disaggregate, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckOrigin(absl::string_view origin) {
  absl::string_view rest = origin;
  const bool has_scheme =
      absl::ConsumePrefix(&rest, "http://") || absl::ConsumePrefix(&rest, "https://");
  if (origin == "*" || (has_scheme && !rest.empty() && !absl::StrContains(rest, '/'))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--http-cors-origin '", origin,
      "': must be a scheme, a name and perhaps a port, as in https://example.org, or *"));
}

// The names of --http-allow-host. On a trusted network this machine's own name is allowed too.
absl::StatusOr<AllowedHosts> ReadAllowedHosts(const std::vector<std::string>& names,
                                              bool trusted_network) {
  AllowedHosts hosts{.trusted_network = trusted_network};
  for (const std::string& name : names) {
    absl::StatusOr<std::string> host = ReadAllowedHost(name);
    if (!host.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--http-allow-host ", host.status().message()));
    }
    hosts.names.push_back(*std::move(host));
  }
  char own[256] = {};
  if (!trusted_network || gethostname(own, sizeof(own) - 1) != 0) return hosts;
  if (absl::StatusOr<std::string> host = ReadAllowedHost(own); host.ok() && *host != "*") {
    hosts.names.push_back(*std::move(host));
  }
  return hosts;
}

void AddAdviceFlags(FlagSet& flags, Planner::Options& advice, int& workers) {
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddDouble("advice-utilisation=SHARE", advice.utilisation, 0.1, 1,
                  "Share of time for which workers should be busy; the router derives its advised "
                  "number of workers from it");
  flags.AddDuration(
      "advice-time-per-token", advice.time_per_token, absl::ZeroDuration(), absl::Hours(1),
      "Target for the mean time per output token, from which the router derives its advised number "
      "of decode workers; 0: twice what a worker needs for a single sequence");
  flags.AddDuration("advice-window", advice.window, absl::Seconds(3), absl::Hours(1),
                    "Time over which load is measured for the advice; fewer workers are advised "
                    "only after four such windows");
  flags.AddInt("advice-workers", workers, 0, 10000,
               "Number of workers that the router's advice divides between prefill and decode; 0: "
               "as many as are ready");
}

void AddWorkerSourceFlags(FlagSet& flags, RouterOptions& router) {
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddAddresses("prefill", router.workers.prefill,
                     "Address of a prefill worker, or dns:///NAME:PORT for all workers that DNS "
                     "lists under NAME. May be repeated");
  flags.AddAddresses("decode", router.workers.decode,
                     "Address of a decode worker, or dns:///NAME:PORT for all workers that DNS "
                     "lists under NAME. May be repeated");
  flags.AddString("workers-file=FILE", router.workers.workers_file,
                  "File with a line 'prefill HOST:PORT' or 'decode HOST:PORT' for each worker; "
                  "read again every 2 s");
  flags.AddStrings("advertised-host=HOST", router.advertised_hosts,
                   "Host that decode workers may --advertise besides the one that the router "
                   "calls: a name, an address, a range such as 10.0.0.0/8, or * for any. May be "
                   "repeated");
}

void AddPlacementFlags(FlagSet& flags, std::string& policy, std::string& disaggregate,
                       RequestMachineOptions& machine) {
  flags.SetGroup(FlagGroup::kPrefillDecode);
  flags.AddString("policy", policy,
                  "Rule for choosing workers. round_robin: in turn; least_loaded: by queued work; "
                  "prefix_aware: by queued work and cached prefixes",
                  {"round_robin", "least_loaded", "prefix_aware"});
  AddDisaggregateFlag(flags, disaggregate);
  flags.AddDuration(
      "resume-timeout", machine.worker_timeout, absl::Milliseconds(1), absl::Hours(1),
      "Longest time to retry a request that broke off. Also the longest time, in addition to "
      "--max-queue-time, to wait until a chosen worker accepts a request");
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddDuration("stall-timeout", machine.stall_timeout, absl::Milliseconds(1), absl::Hours(1),
                    "Longest time that a client may leave its stream unread before the request "
                    "ends");
}

// Refuses addresses of workers that the router could never call. Those that DNS or a file gives
// are known later. An error names flag, address and remedy.
absl::Status CheckWorkerAddresses(const RouterFlags& flags) {
  const TlsFlags& tls = flags.server.tls;
  const WorkerSources& workers = flags.router.workers;
  const bool loopback_only = !tls.enabled() && !tls.insecure;
  for (const auto& [flag, addresses] :
       {std::pair("--prefill", &workers.prefill), std::pair("--decode", &workers.decode)}) {
    for (const std::string& address : *addresses) {
      if (absl::StartsWith(address, "unix:")) continue;
      BATON_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
      if (parsed.port == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(flag, " ", address, ": cannot connect to port 0; give the worker's port"));
      }
      if (!loopback_only || absl::StartsWith(address, "dns:")) continue;
      BATON_RETURN_IF_ERROR(Credentials::Loopback().CheckAddress(flag, address));
    }
  }
  return absl::OkStatus();
}

// Checks the flags that --plain-workers needs or excludes. An error names flag and remedy.
absl::Status CheckPlainWorkers(const RouterFlags& flags) {
  const TlsFlags& tls = flags.server.tls;
  const WorkerSources& workers = flags.router.workers;
  if (!tls.enabled()) {
    return absl::InvalidArgumentError(
        "--plain-workers has no effect without --tls-cert and --tls-key; add them, or leave out "
        "--plain-workers");
  }
  if (!flags.front.path.empty()) {
    return absl::InvalidArgumentError(
        "--plain-workers contradicts --front-socket: the proxy's clients never get the certificate "
        "of --tls-cert; give one or the other");
  }
  if (!workers.workers_file.empty()) {
    return absl::InvalidArgumentError(
        "--plain-workers contradicts --workers-file, which may list workers beyond loopback; give "
        "the workers' addresses with --prefill and --decode");
  }
  for (const auto& [flag, addresses] :
       {std::pair("--prefill", &workers.prefill), std::pair("--decode", &workers.decode)}) {
    for (const std::string& address : *addresses) {
      if (IsLoopback(address)) continue;
      return absl::PermissionDeniedError(
          absl::StrCat(flag, " ", address,
                       " is beyond loopback, but --plain-workers allows loopback only: give that "
                       "worker a certificate and leave --plain-workers out"));
    }
  }
  if (tls.certificate_optional || tls.has_authority()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tls-cert: clients have no way to authenticate; give --api-keys, --serve-key-file, or "
      "--tls-client-ca for clients with certificates");
}

}  // namespace

void RouterFlags::AddTo(FlagSet& flags) {
  AddServerFlags(flags, server);
  AddTlsClientCaFlag(flags, server.tls.client_ca_file);
  flags.AddBool("plain-workers", router.plain_workers,
                "Call workers without TLS; all must be on loopback. --tls-cert is then shown to "
                "clients only and needs no role in its SPIFFE ID, and --tls-ca is optional");
  AddModelFileFlags(flags, model, model_sha256, "; the weights may be missing");
  flags.AddBool("allow-mixed-revisions", router.allow_mixed_revisions,
                "Also accept workers that serve another model with the same tokenizer as --model, "
                "so that a model can be replaced without a pause; an answer's system_fingerprint "
                "names the model that produced it");
  AddServedModelNameFlag(flags, names.served);
  AddModelAliasFlag(flags, names.aliases);
  AddSamplingDefaultFlags(flags, sampling);
  AddServerKeyFlags(flags, api_keys, serve_key_file);
  AddFleetSecretFlag(flags, fleet_secret_file);
  flags.AddBool("expose-workers", router.runner.expose_workers,
                "Show clients the names of workers and the causes of their failures; both may "
                "contain host names");
  AddWorkerSourceFlags(flags, router);
  AddPlacementFlags(flags, policy, disaggregate, router.runner.machine);
  AddMaxQueueTimeFlag(flags, max_queue_time);
  flags.AddInt("max-waiting-requests", max_waiting_requests, 1, 1 << 20,
               "Maximum number of requests that wait in the router; further ones are rejected");
  flags.AddBytes("max-waiting-bytes", max_waiting_bytes,
                 "Maximum size of all requests that wait in the router; further ones are rejected");
  AddAdviceFlags(flags, router.advice, advice_workers);
  flags.SetGroup(FlagGroup::kHttp);
  flags.AddAddress("http-listen", http_listen,
                   absl::StrCat(kHttpListenHelp, "Port 0: any free port; empty: no HTTP"));
  AddHttpAccessFlags(flags, http.cors_origins, http_allow_hosts);
  flags.AddInt("http-threads", http.threads, 1, 16, "Threads that read and write HTTP");
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddString("front-socket=PATH", front.path,
                  "Unix socket for a proxy that passes on clients' calls and certificates (see "
                  "deploy/haproxy); empty: none");
  flags.AddInt("front-uid", front_uid, 0, std::numeric_limits<int>::max(),
               "Numeric ID of the only user that may connect to --front-socket");
  AddRequestRecordFlags(flags, {.access_log = access_log.target,
                                .trace_file = trace.file,
                                .trace_file_bytes = trace.file_bytes,
                                .otlp_endpoint = trace.otlp.endpoint,
                                .otlp_sample_ratio = trace.otlp.sampler.ratio});
  flags.SetGroup(FlagGroup::kProcess);
  flags.AddString("grammar-compiler=PROGRAM", router.grammars.program,
                  "Program that compiles the grammars of response_format; empty: "
                  "baton-grammar-compiler beside this program or in ../libexec/baton");
  flags.AddInt("tokenizer-threads", router.tokenizer_threads, 1, 64, "Threads that tokenise text");
  flags.ShowFirst({"model", "prefill", "decode", "workers-file", "listen", "http-listen",
                   "api-keys", "tls-cert", "tls-key", "tls-ca"});
  flags.AddExample("baton-router -m model.gguf --prefill localhost:50052 --decode localhost:50053",
                   "Serve gRPC with two workers on this machine");
  flags.AddExample("baton-router -m model.gguf --workers-file workers.txt --port 8080",
                   "Serve HTTP too, with the workers that a file lists");
}

absl::Status RouterFlags::Finish() {
  server.tls.for_clients_only = router.plain_workers;
  BATON_RETURN_IF_ERROR(ValidateServerFlags(server));
  if (!http_listen.empty()) {
    BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(server.tls));
    BATON_RETURN_IF_ERROR(credentials.CheckAddress("--http-listen", http_listen));
  }
  for (const std::string& origin : http.cors_origins) BATON_RETURN_IF_ERROR(CheckOrigin(origin));
  const bool serves_everybody = server.tls.insecure && !has_keys();
  BATON_ASSIGN_OR_RETURN(router.http_hosts, ReadAllowedHosts(http_allow_hosts, serves_everybody));
  for (const std::string& host : router.advertised_hosts) {
    if (const absl::Status status = CheckHostPattern(host); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--advertised-host: ", status.message()));
    }
  }
  if (model.empty()) {
    return absl::InvalidArgumentError("--model: not given; name the GGUF file of the model");
  }
  BATON_RETURN_IF_ERROR(ValidateModelSha256(model_sha256));
  if (router.workers.prefill.empty() && router.workers.decode.empty() &&
      router.workers.workers_file.empty()) {
    return absl::InvalidArgumentError(
        "no workers: give --prefill and --decode (host:port or dns:///name:port), or "
        "--workers-file");
  }
  BATON_RETURN_IF_ERROR(CheckWorkerAddresses(*this));
  if (front.path.empty() != (front_uid < 0)) {
    return absl::InvalidArgumentError(
        "--front-socket and --front-uid need each other; give both, or neither");
  }
  front.user = static_cast<uid_t>(front_uid);
  if (router.grammars.program.empty()) {
    router.grammars.program = HelperProgram("baton-grammar-compiler");
  }
  constexpr uint64_t kLeastTraceBytes = uint64_t{1} << 20;
  if (trace.file_bytes < kLeastTraceBytes) {
    return absl::InvalidArgumentError("--trace-file-bytes: must be at least 1MiB");
  }
  access_log.format = server.log_format == "json" ? AccessFormat::kJson : AccessFormat::kText;
  if (access_log.on()) BATON_RETURN_IF_ERROR(LineSink::Check(access_log.target));
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  BATON_RETURN_IF_ERROR(TakeOtelEnvironment(variable, trace.otlp));
  // Clients without a certificate may have a key; the door looks.
  server.tls.certificate_optional = has_keys();
  if (router.plain_workers) BATON_RETURN_IF_ERROR(CheckPlainWorkers(*this));
  // Beyond loopback there is TLS, so without both of these no other machine reaches the router.
  const bool reached_from_outside = server.tls.enabled() || !front.path.empty();
  router.insecure = server.tls.insecure;
  router.needs_identity = has_keys() || (reached_from_outside && !server.tls.insecure);
  router.advice.workers = static_cast<uint32_t>(advice_workers);
  router.admission.requests = static_cast<uint32_t>(max_waiting_requests);
  router.admission.bytes = max_waiting_bytes;
  router.http_cors_origins = http.cors_origins;
  http.stall_timeout = router.runner.machine.stall_timeout;
  router.admission.max_queue_time =
      max_queue_time == absl::ZeroDuration() ? absl::InfiniteDuration() : max_queue_time;
  router.runner.dispatch.placement.policy = policy == "round_robin" ? PlacementPolicy::kRoundRobin
                                            : policy == "least_loaded"
                                                ? PlacementPolicy::kLeastLoaded
                                                : PlacementPolicy::kPrefixAware;
  return SetDisaggregation(disaggregate, router.runner.dispatch.placement);
}

}  // namespace baton
