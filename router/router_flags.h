// The flags of baton-router.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/flags/flags.h"
#include "common/net/server_flags.h"
#include "common/protocol/sampling_defaults.h"
#include "router/access_log/access_log.h"
#include "router/front/front_socket.h"
#include "router/front/model_names.h"
#include "router/http/http_server.h"
#include "router/router.h"
#include "router/trace/tracer.h"

namespace baton {

struct RouterFlags {
  ServerFlags server;
  std::string model;         // GGUF file or folder; the weights may be missing
  std::string model_sha256;  // what the file's SHA-256 must be; empty: not checked
  ModelNames names;          // none served: the file's name
  SamplingDefaults sampling;
  std::string fleet_secret_file;  // empty: the user's on loopback, else a random secret
  std::string api_keys;           // file of tenants and their keys; empty: none
  std::string serve_key_file;     // file of keys without tenants; empty: none
  std::string policy = "prefix_aware";
  std::string disaggregate = "auto";
  std::string http_listen;                    // host:port of the HTTP API; empty: none
  HttpServer::Options http;                   // without its acceptor's
  std::vector<std::string> http_allow_hosts;  // as --http-allow-host
  int max_waiting_requests = 1024;
  uint64_t max_waiting_bytes = uint64_t{64} << 20;
  absl::Duration max_queue_time = Admission::Limits{}.max_queue_time;  // 0: no limit
  int advice_workers = 0;                                              // 0: as many as are ready
  TracerOptions trace;
  AccessLogOptions access_log;
  FrontSocket::Options front;  // an empty path: there is no front
  int front_uid = -1;          // below 0: not given
  RouterOptions router;

  // Binds --model, --prefill, --decode and so on, and the flags that every server has.
  void AddTo(FlagSet& flags);
  // After parsing: checks what flags say together, and fills `router` and `http`. Errors are one
  // line that names the flag.
  absl::Status Finish();

  // Whether clients may show API keys.
  bool has_keys() const { return !api_keys.empty() || !serve_key_file.empty(); }
};

}  // namespace baton
