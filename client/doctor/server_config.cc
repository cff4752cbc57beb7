#include "client/doctor/server_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/net/server_flags.h"

namespace baton {
namespace {

constexpr const char* kRoutersKeys[] = {
    "prefill",      "decode",       "workers-file", "http-listen",   "api-keys",
    "disaggregate", "front-socket", "policy",       "plain-workers", "serve-key-file"};

std::string ValueOf(const ConfigValues& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() || found->second.empty() ? "" : found->second.front();
}

std::vector<std::string> ValuesOf(const ConfigValues& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::vector<std::string>() : found->second;
}

}  // namespace

ServerConfig ServerConfigOf(const std::string& path, const ConfigValues& values) {
  ServerConfig config{.path = path};
  config.router = std::any_of(std::begin(kRoutersKeys), std::end(kRoutersKeys),
                              [&](const char* key) { return values.count(key) > 0; });
  config.model = ValueOf(values, "model");
  if (std::string device = ValueOf(values, "device"); !device.empty()) {
    config.device = std::move(device);
  }
  config.prefill = ValuesOf(values, "prefill");
  config.decode = ValuesOf(values, "decode");
  const std::string listen = ValueOf(values, "listen");
  config.opened.push_back({"--listen", listen.empty() ? ServerFlags().listen : listen});
  for (const char* key : {"http-listen", "health-listen", "metrics-listen"}) {
    const std::string address = ValueOf(values, key);
    if (!address.empty()) config.opened.push_back({absl::StrCat("--", key), address});
  }
  for (const char* key : {"api-keys", "fleet-secret-file"}) {
    if (std::string file = ValueOf(values, key); !file.empty()) {
      config.secrets.push_back(std::move(file));
    }
  }
  config.serve_keys = ValueOf(values, "serve-key-file");
  config.tls.cert_file = ValueOf(values, "tls-cert");
  config.tls.key_file = ValueOf(values, "tls-key");
  config.tls.ca_file = ValueOf(values, "tls-ca");
  config.tls.client_ca_file = ValueOf(values, "tls-client-ca");
  config.tls.crl_file = ValueOf(values, "tls-crl");
  config.tls.server_name = ValueOf(values, "tls-server-name");
  config.tls.insecure = ValueOf(values, "insecure") == "true";
  // A router's file names its workers. A file that names none is that of `baton serve`, which
  // starts its workers itself.
  const bool names_workers =
      !config.prefill.empty() || !config.decode.empty() || values.count("workers-file") > 0;
  config.tls.for_clients_only =
      ValueOf(values, "plain-workers") == "true" || (config.router && !names_workers);
  return config;
}

absl::StatusOr<ServerConfig> ReadServerConfig(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const ConfigValues values, ReadConfigFile(path));
  return ServerConfigOf(path, values);
}

}  // namespace baton
