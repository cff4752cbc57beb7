// The flags that every server has.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/flags/flags.h"

namespace baton {

struct TlsFlags {
  std::string cert_file;    // --tls-cert: PEM chain of this process
  std::string key_file;     // --tls-key
  std::string ca_file;      // --tls-ca: who may call, and whom we call
  std::string server_name;  // --tls-server-name: expected in peers' certificates instead of the
                            // address called
  bool insecure = false;    // --insecure: plain text beyond loopback too

  bool enabled() const { return !cert_file.empty() || !key_file.empty() || !ca_file.empty(); }
};

struct ServerFlags {
  std::string listen = "127.0.0.1:50051";  // host:port; port 0: any free one
  std::string health_listen;               // empty: none
  std::string metrics_listen;              // empty: none
  std::string advertise;                   // empty: the bound address
  std::string log_level = "info";
  std::string log_format = "text";
  absl::Duration shutdown_timeout = absl::Seconds(30);
  bool check_config = false;
  TlsFlags tls;
};

void AddTlsFlags(FlagSet& flags, TlsFlags& tls);
void AddServerFlags(FlagSet& flags, ServerFlags& server);

// What can be said before anything is opened: certificates that are there and belong together, the
// rule of loopback.
absl::Status ValidateServerFlags(const ServerFlags& server);

}  // namespace baton
