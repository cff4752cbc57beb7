// The flags that all servers have.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/certificates/tls_flags.h"
#include "common/flags/flags.h"

namespace baton {

struct ServerFlags {
  std::string listen = "127.0.0.1:50051";  // host:port; port 0: any free one
  std::string health_listen;               // host:port of health checks; empty: none
  std::string metrics_listen;              // host:port of GET /metrics; empty: none
  bool metrics_vllm_names = false;         // GET /metrics has vLLM's names too
  bool insecure_probes = false;            // the two above may be beyond loopback
  bool reuse_port = false;                 // sockets of this user may share the ports above
  bool reflection = false;                 // gRPC reflection beyond loopback too
  std::string advertise;                   // host:port for others; empty: the bound address
  std::string log_level = "info";
  std::string log_format = "text";
  absl::Duration shutdown_timeout = absl::Seconds(30);
  bool check_config = false;
  TlsFlags tls;
};

void AddServerFlags(FlagSet& flags, ServerFlags& server);

// Checks what can be checked before a port is opened: the TLS flags and their files, and that plain
// text stays on loopback unless it was asked for, on every port. An error names the flag, the file
// and the remedy.
absl::Status ValidateServerFlags(const ServerFlags& server);

}  // namespace baton
