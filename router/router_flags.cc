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
  flags.AddDouble("advice-utilisation", advice.utilisation, 0.1, 1,
                  "how busy workers are to be with as many as the router advises");
  flags.AddDuration("advice-time-per-token", advice.time_per_token, absl::ZeroDuration(),
                    absl::Hours(1),
                    "what a token of an answer may take in the mean with as many decode workers as "
                    "are advised; 0: twice what it takes where a worker has one sequence");
  flags.AddDuration("advice-window", advice.window, absl::Seconds(3), absl::Hours(1),
                    "over which the load is measured that workers are advised for; fewer are "
                    "advised after four such");
  flags.AddInt("advice-workers", workers, 0, 10000,
               "workers of both roles that the router advises how to split; 0: as many as are "
               "ready");
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
            absl::StrCat(flag, " ", address, ": port 0 cannot be called; name the worker's port"));
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
        "--plain-workers has no effect without --tls-cert and --tls-key; give them or leave it "
        "out");
  }
  if (!flags.front.path.empty()) {
    return absl::InvalidArgumentError(
        "--plain-workers contradicts --front-socket, whose clients do not see --tls-cert; give one "
        "or the other");
  }
  if (!workers.workers_file.empty()) {
    return absl::InvalidArgumentError(
        "--plain-workers contradicts --workers-file, which may name any address; give the workers' "
        "addresses by --prefill and --decode");
  }
  for (const auto& [flag, addresses] :
       {std::pair("--prefill", &workers.prefill), std::pair("--decode", &workers.decode)}) {
    for (const std::string& address : *addresses) {
      if (IsLoopback(address)) continue;
      return absl::PermissionDeniedError(
          absl::StrCat(flag, " ", address,
                       " is beyond loopback, where --plain-workers calls nothing: give that worker "
                       "a certificate and leave --plain-workers out"));
    }
  }
  if (tls.certificate_optional || tls.has_authority()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tls-cert: clients have no way to show who they are; give --api-keys, --serve-key-file, "
      "or --tls-client-ca for clients with certificates");
}

}  // namespace

void RouterFlags::AddTo(FlagSet& flags) {
  AddServerFlags(flags, server);
  flags.AddString("tls-client-ca", server.tls.client_ca_file,
                  "PEM certificates of an authority whose certificates are those of clients only");
  flags.AddBool("plain-workers", router.plain_workers,
                "Call workers in plain text, all of them on loopback; --tls-cert is for clients "
                "alone, needs no role, and --tls-ca may be left out");
  flags.AddString("model", model, "GGUF file or Hugging Face folder; the weights may be missing");
  flags.AddString("model-sha256", model_sha256,
                  "SHA-256 that the file of --model must have, as `sha256sum` prints it");
  AddServedModelNameFlag(flags, names.served);
  AddModelAliasFlag(flags, names.aliases);
  AddSamplingDefaultFlags(flags, sampling);
  flags.AddString(
      "api-keys", api_keys,
      "file of `baton keys`: tenants, their keys and limits. Read every second. Clients "
      "need a key or a certificate then, with --insecure too, and so they do beyond loopback and "
      "behind a front");
  AddServeKeyFileFlag(flags, serve_key_file);
  flags.AddString(
      "fleet-secret-file", fleet_secret_file,
      "64 hexadecimal digits that keep the tenants' cached prefixes apart, the same for "
      "all routers of a fleet. Without it: this user's on loopback, else a random one");
  flags.AddAddresses("prefill", router.workers.prefill,
                     "prefill workers: host:port or dns:///name:port, repeated");
  flags.AddAddresses("decode", router.workers.decode,
                     "decode workers: host:port or dns:///name:port, repeated");
  flags.AddString("workers-file", router.workers.workers_file,
                  "file of lines 'prefill HOST:PORT' and 'decode HOST:PORT', read every 2 s");
  flags.AddStrings("advertised-host", router.advertised_hosts,
                   "Hosts that decode workers may --advertise beside the one where the router "
                   "reaches them (NAT, a network for KV caches): names, addresses, ranges such as "
                   "10.0.0.0/8, or *; repeated");
  flags.AddBool("allow-mixed-revisions", router.allow_mixed_revisions,
                "Use workers of other models with the tokenizer of --model too, while one model "
                "replaces another; the system_fingerprint of an answer names its model. Without it "
                "such workers are refused");
  flags.AddString("policy", policy,
                  "how workers are chosen: in turn, by what is queued, or by that and what they "
                  "hold of the prompt",
                  {"round_robin", "least_loaded", "prefix_aware"});
  flags.AddString("disaggregate", disaggregate,
                  "where prompts are prefilled: always on prefill workers; never, but on decode "
                  "workers; auto: where it is estimated to be better; a number: on prefill workers "
                  "from so many tokens up that are not cached. The last two go on without prefill "
                  "workers");
  flags.AddDuration(
      "resume-timeout", router.runner.machine.worker_timeout, absl::Milliseconds(1), absl::Hours(1),
      "How long a broken request is tried again, and how long a chosen worker may take "
      "to accept a request after --max-queue-time");
  flags.AddDuration("stall-timeout", router.runner.machine.stall_timeout, absl::Milliseconds(1),
                    absl::Hours(1), "how long a client may leave its stream unread");
  flags.AddInt("max-waiting-requests", max_waiting_requests, 1, 1 << 20,
               "requests that may wait in the router");
  flags.AddBytes("max-waiting-bytes", max_waiting_bytes,
                 "bytes of requests that may wait in the router");
  flags.AddDuration(
      "max-queue-time", max_queue_time, absl::ZeroDuration(), absl::Hours(1),
      "Longest time that a request waits for a worker. A longer wait is refused. 0: no "
      "limit");
  flags.AddBool("expose-workers", router.runner.expose_workers,
                "tell clients the workers' own names and why they failed, which names hosts");
  flags.AddAddress(
      "http-listen", http_listen,
      "host:port of OpenAI's API over HTTP (port 0: any free), with TLS where --listen "
      "has it. Also as --host HOST and --port PORT, on the command line alone");
  flags.AddStrings("http-cors-origin", http.cors_origins,
                   "origins whose pages in a browser may call --http-listen, such as "
                   "https://example.org, or *; repeated");
  AddHttpAllowHostFlag(flags, http_allow_hosts);
  flags.AddInt("http-threads", http.threads, 1, 16, "threads that read and write HTTP");
  flags.AddString("front-socket", front.path,
                  "Unix socket where a proxy passes clients' calls and certificates on "
                  "(deploy/haproxy)");
  flags.AddInt("front-uid", front_uid, 0, std::numeric_limits<int>::max(),
               "number of the only user who may connect to --front-socket");
  flags.AddString("grammar-compiler", router.grammars.program,
                  "program that compiles the grammars of response_format (default: "
                  "baton-grammar-compiler beside this program, or in ../libexec/baton)");
  AddAdviceFlags(flags, router.advice, advice_workers);
  flags.AddString(
      "access-log", access_log.target,
      "Where each request that ends gets a line, without its text: a FILE, which may be "
      "moved away for rotation, stderr or none");
  flags.AddString("trace-file", trace.file,
                  "file that gets the stages of every request that ends, as Trace Events for "
                  "Perfetto; at its bound, and at a restart, it becomes FILE.1");
  flags.AddBytes("trace-file-bytes", trace.file_bytes, "bound of --trace-file");
  flags.AddString("otlp-endpoint", trace.otlp.endpoint,
                  "URL of a collector that gets the spans of requests by OTLP over HTTP, in JSON: "
                  "http://collector:4318. Without it: OpenTelemetry's variables");
  flags.AddDouble("otlp-sample-ratio", trace.otlp.sampler.ratio, 0, 1,
                  "share of the requests whose spans are exported, of those whose caller does not "
                  "decide it (traceparent)");
  flags.AddInt("tokenizer-threads", router.tokenizer_threads, 1, 64, "threads that tokenise");
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
        "--front-socket and --front-uid: one is not given; give both, or neither");
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
