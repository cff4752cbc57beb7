// A local cluster: the router and workers that `baton serve` runs as child processes on loopback.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/serve/child_process.h"
#include "client/serve/core_division.h"
#include "client/serve/cpu_claims.h"
#include "client/serve/mps_control.h"
#include "client/serve/reserved_port.h"
#include "common/net/metrics_server.h"

namespace baton {

inline constexpr char kAnyHttpPort[] = "auto";

struct LocalClusterOptions {
  std::string binaries;                    // folder of baton-router and the workers
  std::string model;                       // path of the GGUF file
  std::string listen = "127.0.0.1:50051";  // host:port of the router; port 0: a free one
  // host:port of the router's HTTP; kAnyHttpPort: 127.0.0.1:8080 or the next port that is free;
  // empty: none.
  std::string http_listen;
  std::string health_listen;   // host:port of the router's health; empty: a free port of loopback
  std::string metrics_listen;  // host:port of the page with all metrics; empty: none
  int prefill_workers = 1;
  int decode_workers = 1;
  int threads = 0;                       // threads of each worker; 0: as many as it gets CPUs
  std::vector<int> cpus;                 // CPUs of the cluster; empty: all that we may use
  double gpu_memory_utilization = 0.9;   // share of a GPU's memory that all workers divide evenly
  bool cuda_mps = false;                 // start the service by which workers share a GPU
  std::vector<std::string> router_args;  // further flags of the router
  std::vector<std::string> worker_args;  // further flags of every worker
};

// Use it on the main thread only. Its destructor stops all children.
class LocalCluster {
 public:
  // Runs each program with --check-config, one after the other. Returns false at the first that
  // refuses its configuration, which says why on stderr, and an error if one gives no answer.
  static absl::StatusOr<bool> Check(const LocalClusterOptions& options);
  // Confines the calling thread to `cpus`, if they are given, and starts the children, which load
  // while the caller polls. Workers get CPUs of their own if other clusters on this machine have
  // left enough (client/serve/cpu_claims.h, client/serve/core_division.h). CPUs that are given are divided even
  // if others have claimed them. The log says which worker got which.
  static absl::StatusOr<LocalCluster> Start(const LocalClusterOptions& options);
  LocalCluster(LocalCluster&&) = default;
  ~LocalCluster();

  // Restarts children that died, and asks for their health. Call it several times a second. An
  // error means that the cluster cannot run: a child refused its flags or its model (it says why on
  // stderr), or could not be started again.
  absl::Status Poll();
  // True once the router is ready and has seen every worker ready, also while a worker is restarted
  // later. False again if the router dies.
  bool ready() const { return ready_; }
  // host:port of the router.
  const std::string& address() const { return children_.back().address; }
  // host:port of its HTTP; empty: none.
  const std::string& http_address() const { return http_address_; }
  // Ends the router first, then the workers: by SIGTERM, and by SIGKILL if a process still runs
  // after `grace`. Returns true if none had to be killed.
  bool Stop(absl::Duration grace);

 private:
  struct Child {
    std::string name;
    std::vector<std::string> argv;
    std::string address;  // host:port of its gRPC server
    std::string health_address;
    std::string metrics_address;        // host:port of GET /metrics; empty: none
    std::vector<ChildProcess> process;  // one, or none while it waits to be restarted
    bool was_ready = false;             // it was ready since its last start
    bool ever_ready = false;            // it was ready once, so its flags and its model are right
    int deaths_before_ready = 0;        // how often in a row it died before it was ready
    absl::Time restart_at = absl::InfinitePast();
  };
  LocalCluster() = default;
  // Makes the children with their arguments and starts none of them. Keeps the ports that it
  // chooses, and perhaps those that are given.
  static absl::StatusOr<LocalCluster> Prepare(const LocalClusterOptions& options,
                                              const std::vector<WorkerCores>& division,
                                              bool keep_given_ports);
  absl::StatusOr<Child> MakeWorker(const LocalClusterOptions& options, int index,
                                   const WorkerCores& cores);
  absl::StatusOr<Child> MakeRouter(const LocalClusterOptions& options);
  // Keeps the port of `address` (port 0: a free one) for a child, also while the child starts again.
  // Returns the address with the port's number. An error names `flag`.
  absl::StatusOr<std::string> KeepPort(absl::string_view flag, const std::string& address);
  // Keeps the first port from 8080 on that is free, and returns its address.
  absl::StatusOr<std::string> KeepNextHttpPort();
  // Keeps those of the router's ports that `options` has numbers of.
  absl::Status KeepGivenPorts(const LocalClusterOptions& options);
  absl::Status ServeMetrics(const std::string& listen);
  absl::Status PollChild(Child& child, absl::Time now);
  // The process ids of the children that run, that of the multi-process service among them.
  std::vector<pid_t> RunningProcesses() const;

  CpuClaims claims_;                 // outlives the workers, which run on these CPUs
  std::unique_ptr<MpsControl> mps_;  // outlives them too; null: none was asked for
  bool mps_ended_ = false;           // and the log says so
  std::vector<Child> children_;      // the workers, then the router
  std::string http_address_;
  std::vector<ReservedPort> ports_;  // the children's ports, which they open with --reuse-port
  std::unique_ptr<MetricsServer> metrics_;
  bool ready_ = false;
};

}  // namespace baton
