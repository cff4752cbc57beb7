#include "common/net/server_flags.h"

#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"
#include "common/certificates/credentials.h"

namespace baton {
namespace {

absl::Status CheckPlain(absl::string_view flag, const std::string& address) {
  if (address.empty() || IsLoopback(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(flag, " ", address,
                   " is beyond loopback and always plain text: give --insecure-probes to allow it, "
                   "and let only your probes reach it"));
}

}  // namespace

void AddServerFlags(FlagSet& flags, ServerFlags& server) {
  flags.AddAddress("listen", server.listen,
                   "Address of the gRPC server, host:port (port 0: any free)");
  flags.AddAddress("health-listen", server.health_listen,
                   "Plain address for probes: gRPC health services startup, liveness, readiness");
  flags.AddAddress("metrics-listen", server.metrics_listen, "Plain address of HTTP /metrics");
  flags.AddBool(
      "metrics-vllm-names", server.metrics_vllm_names,
      "Have /metrics tell by vLLM's names too, for gateways and dashboards that read them");
  flags.AddBool("insecure-probes", server.insecure_probes,
                "Allow --health-listen and --metrics-listen, always plain text, beyond loopback");
  flags.AddBool(
      "reuse-port", server.reuse_port,
      "Open the ports with SO_REUSEPORT, beside sockets of the same user by which another "
      "process, such as `baton serve`, keeps them from other users");
  flags.AddBool("reflection", server.reflection,
                "Offer gRPC reflection beyond loopback too, where it tells every peer all methods");
  flags.AddAddress(
      "advertise", server.advertise,
      "Address where others reach --listen. A decode worker gets KV caches there, if "
      "its router reaches it at the same host or allows that host (--advertised-host)");
  flags.AddString("log-level", server.log_level, "Least severity that is logged",
                  {"trace", "debug", "info", "warning", "error"});
  flags.AddString("log-format", server.log_format, "Shape of log lines", {"text", "json"});
  flags.AddDuration("shutdown-timeout", server.shutdown_timeout, absl::ZeroDuration(),
                    absl::Hours(24), "How long SIGTERM waits for what runs");
  flags.AddBool("check-config", server.check_config, "Check flags and files, then exit");
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
