#include "client/serve/serve_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"

#include "client/serve/curl_line.h"
#include "client/serve/signal_watcher.h"
#include "common/backend/cpu/machine/cpu_set.h"
#include "common/base/address.h"
#include "common/base/log.h"
#include "common/base/service_manager.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/certificates/credentials.h"
#include "common/flags/flag_group.h"
#include "common/net/door_flags.h"
#include "common/net/model_name_flags.h"
#include "common/worker/model_runtime.h"

namespace baton {
namespace {

constexpr absl::Duration kStopAfterError = absl::Seconds(2);

// Whether `argument` ("--name=value") is one of the flags `names`.
bool IsOneOf(absl::string_view argument, absl::Span<const absl::string_view> names) {
  const absl::string_view name = absl::StripPrefix(argument.substr(0, argument.find('=')), "--");
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Flags of `serve` that concern the router or the cluster and are not passed to workers.
constexpr absl::string_view kNotForWorkers[] = {
    "listen",          "health-listen",     "metrics-listen",
    "advertise",       "check-config",      "prefill-workers",
    "decode-workers",  "disaggregate",      "model",
    "threads",         "cpu-set",           "gpu-memory-utilization",
    "api-keys",        "fleet-secret-file", "generation-config",
    "http-listen",     "http-cors-origin",  "trace-file",
    "otlp-endpoint",   "trace-file-bytes",  "otlp-sample-ratio",
    "cuda-mps",        "reuse-port",        "max-queue-time",
    "access-log",      "tls-cert",          "tls-key",
    "tls-ca",          "tls-client-ca",     "tls-crl",
    "tls-server-name", "http-allow-host",   "serve-key-file",
    "model-alias"};

// Flags of `serve` that are passed to the router.
constexpr absl::string_view kForRouter[] = {
    "api-keys",           "fleet-secret-file", "disaggregate",
    "log-level",          "log-format",        "shutdown-timeout",
    "tls-cert",           "tls-key",           "tls-ca",
    "insecure",           "tls-crl",           "tls-server-name",
    "served-model-name",  "model-sha256",      "insecure-probes",
    "reflection",         "generation-config", "http-cors-origin",
    "metrics-vllm-names", "trace-file",        "otlp-endpoint",
    "trace-file-bytes",   "otlp-sample-ratio", "http-allow-host",
    "tls-client-ca",      "serve-key-file",    "model-alias"};

// Flags of `serve` that are passed to the router and that workers do not have.
constexpr absl::string_view kRoutersAlone[] = {"default-temperature", "default-top-p"};

// Flags by which a router with TLS can identify its clients. One of them must be given.
constexpr absl::string_view kWaysToKnowClients[] = {"api-keys", "serve-key-file", "tls-client-ca",
                                                    "tls-ca"};

// Checks that clients have a way to show who they are if there is TLS, with which the router serves
// no others.
absl::Status CheckClientsAreKnown(const TlsFlags& tls, const std::vector<std::string>& arguments) {
  if (!tls.enabled() || std::any_of(arguments.begin(), arguments.end(), [](const auto& argument) {
        return IsOneOf(argument, kWaysToKnowClients);
      })) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--tls-cert: clients have no way to authenticate; give --api-keys (a file of `baton keys`), "
      "--serve-key-file (keys of your own), or --tls-client-ca for clients with certificates");
}

// Checks that HTTP beyond loopback is protected. The router's own error would name --tls-ca too.
absl::Status CheckHttpAddress(const TlsFlags& tls, const std::string& address) {
  if (!ParseHostPort(address).ok()) return absl::OkStatus();  // auto, none, or the router's to say
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(tls));
  return credentials.CheckAddress("--http-listen", address);
}

// Checks the model once, before each part would refuse it in its own words. The parts check its
// SHA-256.
absl::Status CheckServedModel(ModelRuntimeOptions model) {
  model.model_sha256.clear();
  return CheckModel(model);
}

int RunCluster(const LocalClusterOptions& options, bool needs_key, const ServerFlags& server) {
  std::atomic<int> signals_seen = 0;
  const SignalWatcher signals([&signals_seen](int) {
    if (++signals_seen > 1) _exit(1);  // a second signal: end at once; the kernel ends our children
  });

  auto cluster = LocalCluster::Start(options);
  if (!cluster.ok()) {
    LogError("{}", std::string(cluster.status().message()));
    return 2;
  }
  bool announced = false;
  while (signals_seen == 0) {
    if (const absl::Status status = cluster->Poll(); !status.ok()) {
      cluster->Stop(kStopAfterError);  // what the other parts say is not the last that is read
      LogError("{}", std::string(status.message()));
      return 2;
    }
    if (cluster->ready() && !announced) {
      const bool tls = server.tls.enabled();
      std::string lines =
          absl::StrCat("ready: grpc://", cluster->address(), tls ? " (TLS)" : "", "\n");
      if (const std::string& http = cluster->http_address(); !http.empty()) {
        absl::StrAppend(&lines, "ready: ", tls ? "https://" : "http://", http, "\n",
                        CurlLine(http, needs_key, server.tls), "\n");
      }
      WriteOutput(lines);
      NotifyServiceManager(kServiceReady);
      announced = true;
    }
    absl::SleepFor(absl::Milliseconds(announced ? 100 : 20));
  }
  NotifyServiceManager(kServiceStopping);
  LogInfo("stopping; running requests have {} to finish",
          absl::FormatDuration(server.shutdown_timeout));
  return cluster->Stop(server.shutdown_timeout) ? 0 : 1;
}

}  // namespace

void ServeCommand::AddFlags(FlagSet& flags) {
  AddWorkerFlags(flags, worker_);
  flags.AllowPositional("model", "FILE", "The same as --model FILE");
  flags.SetGroup(FlagGroup::kPrefillDecode);
  flags.AddInt("prefill-workers", options_.prefill_workers, 0, 64,
               "Number of prefill workers; 0: decode workers prefill too");
  flags.AddInt("decode-workers", options_.decode_workers, 1, 64, "Number of decode workers");
  AddDisaggregateFlag(flags, disaggregate_);
  flags.SetGroup(FlagGroup::kEngine);
  flags.AddBool("cuda-mps", options_.cuda_mps,
                "Start NVIDIA's Multi-Process Service, so that workers on one GPU compute at the "
                "same time instead of in turns");
  AddServerKeyFlags(flags, api_keys_, serve_key_file_);
  AddTlsClientCaFlag(flags, worker_.server.tls.client_ca_file);
  AddModelAliasFlag(flags, model_aliases_);
  AddSamplingDefaultFlags(flags, sampling_);
  flags.SetGroup(FlagGroup::kHttp);
  flags.AddString(
      "http-listen=HOST:PORT|auto|none", http_listen_,
      absl::StrCat(kHttpListenHelp, "auto: 127.0.0.1:8080, or the next free port; none: no HTTP"));
  AddHttpAccessFlags(flags, http_cors_origins_, http_allow_hosts_);
  AddMaxQueueTimeFlag(flags, max_queue_time_);
  AddRequestRecordFlags(flags, {.access_log = access_log_,
                                .trace_file = trace_file_,
                                .trace_file_bytes = trace_file_bytes_,
                                .otlp_endpoint = otlp_endpoint_,
                                .otlp_sample_ratio = otlp_sample_ratio_});
  AddFleetSecretFlag(flags, fleet_secret_file_);
  flags.ShowFirst({"model", "served-model-name", "max-model-len", "device", "threads",
                   "http-listen", "listen", "serve-key-file", "insecure"});
  flags.AddExample("baton serve model.gguf", "Serve HTTP and gRPC on this machine");
  flags.AddExample("baton serve model.gguf --device cuda:1 --max-model-len 8192",
                   "Compute on the second GPU, with at most 8192 tokens per sequence");
  flags.AddExample("baton serve model.gguf --host 0.0.0.0 --insecure --serve-key-file keys.txt",
                   "Serve clients on other machines that have a key, over unencrypted HTTP");
}

int ServeCommand::Run(const FlagSet& flags) {
  TlsFlags& tls = worker_.server.tls;
  tls.for_clients_only = true;  // the workers stay on loopback, in plain text
  absl::Status status = ValidateWorkerFlags(worker_);
  if (status.ok()) status = CheckClientsAreKnown(tls, flags.GivenArguments());
  if (status.ok()) status = CheckHttpAddress(tls, http_listen_);
  if (status.ok() && options_.cuda_mps && worker_.runtime.backend.device == "cpu") {
    status = absl::InvalidArgumentError(
        "--cuda-mps: needs a GPU, but --device is cpu; leave one of them out");
  }
  if (status.ok()) {
    status = InitLogging("serve", worker_.server.log_level, worker_.server.log_format);
  }
  if (!status.ok()) return ExitUsage("baton serve", status);
  options_.binaries = ProgramFolder();
  options_.model = worker_.runtime.model;
  options_.listen = worker_.server.listen;
  options_.http_listen = http_listen_ == "none" ? "" : http_listen_;
  options_.health_listen = worker_.server.health_listen;
  options_.metrics_listen = worker_.server.metrics_listen;
  options_.threads = worker_.runtime.backend.threads;
  options_.gpu_memory_utilization = worker_.runtime.memory.gpu_utilization;
  if (!worker_.runtime.backend.cpu_set.empty())
    options_.cpus = *ParseCpuSet(worker_.runtime.backend.cpu_set);
  options_.router_args.push_back(
      absl::StrCat("--max-queue-time=", absl::FormatDuration(max_queue_time_)));
  if (tls.enabled()) options_.router_args.push_back("--plain-workers");
  for (const std::string& argument : flags.GivenArguments()) {
    if (IsOneOf(argument, kRoutersAlone)) {
      options_.router_args.push_back(argument);
      continue;
    }
    if (!IsOneOf(argument, kNotForWorkers)) options_.worker_args.push_back(argument);
    if (IsOneOf(argument, kForRouter)) options_.router_args.push_back(argument);
  }
  // Given or not: the router's own default is none.
  options_.router_args.push_back(absl::StrCat("--access-log=", access_log_));
  if (worker_.server.check_config) {
    const absl::StatusOr<bool> accepted = LocalCluster::Check(options_);
    if (!accepted.ok()) return ExitUsage("baton serve", accepted.status());
    return *accepted ? 0 : kExitUsage;
  }
  if (status = CheckServedModel(worker_.runtime); !status.ok()) {
    return ExitUsage("baton serve", status);
  }
  const bool needs_key = !api_keys_.empty() || !serve_key_file_.empty();
  return RunCluster(options_, needs_key, worker_.server);
}

}  // namespace baton
