// The TOML files of servers, as far as the doctor looks into them.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/certificates/tls_flags.h"
#include "common/flags/config_file.h"

namespace baton {

// An address that a server opens.
struct OpenedAddress {
  std::string flag{};     // such as "--health-listen"
  std::string address{};  // host:port
};

// What the file of one server says; without a key its default.
struct ServerConfig {
  std::string path{};
  bool router = false;  // else a worker of either role
  std::string model{};  // empty: the file has none
  std::string device = "auto";
  std::vector<OpenedAddress> opened{};           // --listen first
  std::vector<std::string> prefill{}, decode{};  // a router's workers by address
  TlsFlags tls{};
  std::vector<std::string> secrets{};  // a router's --api-keys and --fleet-secret-file
  std::string serve_keys{};            // a router's --serve-key-file; empty: none
};

// A router's file has one of the keys that only routers have, such as `decode`; any other is a
// worker's. Keys are not checked: `--check-config` of the server does so.
ServerConfig ServerConfigOf(const std::string& path, const ConfigValues& values);
// INVALID_ARGUMENT with file and line.
absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path);

}  // namespace baton
