// `baton serve` runs a router and workers on this machine and restarts what dies.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

#include "client/serve/local_cluster.h"
#include "common/flags/command.h"
#include "common/protocol/sampling_defaults.h"
#include "common/worker/worker_flags.h"

namespace baton {

// Runs until SIGINT or SIGTERM. Prints `ready: grpc://ADDRESS` on stdout once a request would
// succeed. Exit codes: 0, or 2 if a child refused its flags or model.
class ServeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  LocalClusterOptions options_;
  WorkerFlags worker_;
  std::string disaggregate_, api_keys_, fleet_secret_file_;  // passed to the router
  std::string serve_key_file_;                               // the same
  std::string access_log_ = "stderr";                        // the same
  std::string trace_file_, otlp_endpoint_;                   // the same
  uint64_t trace_file_bytes_ = uint64_t{256} << 20;          // the same
  double otlp_sample_ratio_ = 1;                             // the same
  std::string http_listen_ = kAnyHttpPort;
  // Passed to the router: as long as OpenAI's client waits. No other router would serve the request
  // sooner.
  absl::Duration max_queue_time_ = absl::Minutes(10);
  std::vector<std::string> http_cors_origins_;  // passed to the router
  std::vector<std::string> http_allow_hosts_;   // the same
  std::vector<std::string> model_aliases_;      // the same
  SamplingDefaults sampling_;                   // the same
};

}  // namespace baton
