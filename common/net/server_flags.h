// The flags that all servers have.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/flags/flags.h"

namespace baton {

struct TlsFlags {
  std::string cert_file;  // --tls-cert: path of this process's certificate chain (PEM)
  std::string key_file;   // --tls-key: path of its private key (PEM)
  std::string ca_file;    // --tls-ca: path of the CA that signed the certificates of all peers
  // --tls-client-ca: path of another CA, which signs certificates of clients only; empty: none
  std::string client_ca_file;
  // --tls-crl: path of revocation lists (PEM) of these authorities; empty: nothing is revoked
  std::string crl_file;
  std::string server_name;  // --tls-server-name: name in peers' certificates; empty: their address
  bool insecure = false;    // --insecure: allow plain text beyond loopback
  // Not a flag: a server lets in callers without a certificate too, and finds out who they are.
  bool certificate_optional = false;

  bool enabled() const { return own_certificate() || !ca_file.empty(); }
  // Whether this process has a certificate. A client may have none, and show an API key instead.
  bool own_certificate() const { return !cert_file.empty() || !key_file.empty(); }
};

struct ServerFlags {
  std::string listen = "127.0.0.1:50051";  // host:port; port 0: any free one
  std::string health_listen;               // host:port of health checks; empty: none
  std::string metrics_listen;              // host:port of GET /metrics; empty: none
  bool insecure_probes = false;            // the two above may be beyond loopback
  bool reflection = false;                 // gRPC reflection beyond loopback too
  std::string advertise;                   // host:port for others; empty: the bound address
  std::string log_level = "info";
  std::string log_format = "text";
  absl::Duration shutdown_timeout = absl::Seconds(30);
  bool check_config = false;
  TlsFlags tls;
};

void AddTlsFlags(FlagSet& flags, TlsFlags& tls);
void AddServerFlags(FlagSet& flags, ServerFlags& server);

// Checks what can be checked before a port is opened: the TLS flags and their files, and that plain
// text stays on loopback unless it was asked for, on every port. An error names the flag, the file and the remedy.
absl::Status ValidateServerFlags(const ServerFlags& server);

}  // namespace baton
