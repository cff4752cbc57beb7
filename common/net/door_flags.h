// The flags that the router and `baton serve` share. `baton serve` passes them on to its router.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/flags/flags.h"

namespace baton {

// Beginning of the help of --http-listen. The special values differ between the programs.
inline constexpr char kHttpListenHelp[] =
    "Address of the HTTP API and the web page; port 0: any free port. --host HOST and --port PORT "
    "set it too. ";

// Adds --api-keys and --serve-key-file. Other servers take the key itself as --api-key, which is an
// error that names --serve-key-file.
void AddServerKeyFlags(FlagSet& flags, std::string& api_keys, std::string& serve_key_file);

// Adds --tls-client-ca.
void AddTlsClientCaFlag(FlagSet& flags, std::string& file);

// Adds --fleet-secret-file.
void AddFleetSecretFlag(FlagSet& flags, std::string& file);

// Adds --http-cors-origin and --http-allow-host.
void AddHttpAccessFlags(FlagSet& flags, std::vector<std::string>& cors_origins,
                        std::vector<std::string>& allowed_hosts);

// Adds --disaggregate.
void AddDisaggregateFlag(FlagSet& flags, std::string& disaggregate);

// Adds --max-queue-time.
void AddMaxQueueTimeFlag(FlagSet& flags, absl::Duration& max_queue_time);

// The values of AddRequestRecordFlags.
struct RequestRecordValues {
  std::string& access_log;
  std::string& trace_file;
  uint64_t& trace_file_bytes;
  std::string& otlp_endpoint;
  double& otlp_sample_ratio;
};

// Adds the flags that say where requests are recorded: --access-log, --trace-file,
// --trace-file-bytes, --otlp-endpoint and --otlp-sample-ratio.
void AddRequestRecordFlags(FlagSet& flags, const RequestRecordValues& values);

}  // namespace baton
