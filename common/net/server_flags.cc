#include "common/net/server_flags.h"

#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/certificates/credentials.h"
#include "common/flags/flag_group.h"

namespace baton {
namespace {

absl::Status CheckPlain(absl::string_view flag, const std::string& address) {
  if (address.empty() || IsLoopback(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(flag, " ", address,
                   " is beyond loopback but never encrypted: give --insecure-probes to allow it, "
                   "and let only your probes reach it"));
}

}  // namespace

void AddServerFlags(FlagSet& flags, ServerFlags& server) {
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddAddress("listen", server.listen, "Address of the gRPC server; port 0: any free port");
  flags.AddAddress("advertise", server.advertise,
                   "Address given to peers in place of --listen; prefill workers send KV caches "
                   "there. If its host is not the one that the router calls, the router needs "
                   "--advertised-host");
  flags.SetGroup(FlagGroup::kObservability);
  flags.AddAddress("health-listen", server.health_listen,
                   "Address of an unencrypted gRPC server for health probes only, with the "
                   "services startup, liveness and readiness; empty: none");
  flags.AddAddress("metrics-listen", server.metrics_listen,
                   "Address of GET /metrics for Prometheus, over plain HTTP; empty: none");
  flags.AddBool("metrics-vllm-names", server.metrics_vllm_names,
                "Add metrics under vLLM's names to /metrics, for gateways and dashboards made for "
                "vLLM");
  flags.AddString("log-level", server.log_level, "Lowest severity to log",
                  {"trace", "debug", "info", "warning", "error"});
  flags.AddString("log-format", server.log_format, "Format of log lines", {"text", "json"});
  flags.SetGroup(FlagGroup::kProcess);
  flags.AddBool("reuse-port", server.reuse_port,
                "Open ports with SO_REUSEPORT; needed if another process of the same user already "
                "holds them, as `baton serve` does for its workers");
  flags.AddDuration("shutdown-timeout", server.shutdown_timeout, absl::ZeroDuration(),
                    absl::Hours(24),
                    "Longest time that running requests may take to finish after SIGTERM");
  flags.AddBool("check-config", server.check_config, "Check flags and files, then exit");
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddBool("insecure-probes", server.insecure_probes,
                "Allow --health-listen and --metrics-listen, which are never encrypted, beyond "
                "loopback");
  flags.AddBool("reflection", server.reflection,
                "Offer gRPC reflection beyond loopback too; it shows all methods to every peer");
  AddTlsFlags(flags, server.tls);
}

absl::Status ValidateServerFlags(const ServerFlags& server) {
  if (server.tls.enabled() && !server.tls.own_certificate()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert is missing: a server needs ",
                                                   server.tls.for_clients_only
                                                       ? "--tls-cert and --tls-key"
                                                       : "--tls-cert, --tls-key and --tls-ca",
                                                   " together"));
  }
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(server.tls));
  BATON_RETURN_IF_ERROR(credentials.CheckAddress("--listen", server.listen));
  if (server.insecure_probes || server.tls.insecure) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(CheckPlain("--health-listen", server.health_listen));
  return CheckPlain("--metrics-listen", server.metrics_listen);
}

}  // namespace baton
