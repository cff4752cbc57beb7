// Router and workers as child processes on loopback: what `baton serve` runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "client/child_process.h"
#include "client/core_division.h"
#include "client/cpu_claims.h"
#include "common/net/metrics_server.h"

namespace baton {

struct LocalClusterOptions {
  std::string binaries;  // folder of baton-router and the workers
  std::string model;
  std::string listen = "127.0.0.1:50051";  // of the router; port 0: a free one
  std::string health_listen;               // of the router; empty: a free port of loopback
  std::string metrics_listen;              // address of the page with all metrics; empty: none
  int prefill_workers = 1;
  int decode_workers = 1;
  int threads = 0;                       // of each worker; 0: as many as it has CPUs
  std::vector<int> cpus;                 // to stay on; empty: all that this process may use
  double gpu_memory_utilization = 0.9;   // of all workers together, if they run on a GPU
  std::vector<std::string> router_args;  // further flags
  std::vector<std::string> worker_args;  // further flags, for every worker
};

// Not thread-safe; used from the main thread. Stops all children when destroyed.
class LocalCluster {
 public:
  // Runs each part with --check-config, one after the other; ends with the first that refuses.
  // False when one did: it has said why on stderr. An error when one could not be asked.
  static absl::StatusOr<bool> Check(const LocalClusterOptions& options);
  // Confines the calling thread to `cpus` and starts the children; they load while the caller
  // polls. Workers get CPUs of their own where enough are left by other clusters on this machine
  // (client/cpu_claims.h, client/core_division.h); `cpus` that are given are taken as they are. The
  // log says which.
  static absl::StatusOr<LocalCluster> Start(const LocalClusterOptions& options);
  LocalCluster(LocalCluster&&) = default;
  ~LocalCluster();

  // To be called several times a second: restarts what died. An error means that the cluster cannot
  // run: a child refused its flags or its model (it has said why on stderr).
  absl::Status Poll();
  // The router is ready and knows every worker as ready. Stays so when one of them is restarted.
  bool ready() const { return ready_; }
  // host:port of the router.
  const std::string& address() const { return children_.back().address; }
  // Ends the router first, then the workers, politely for `grace`, then at once. True when none had
  // to be killed.
  bool Stop(absl::Duration grace);

 private:
  struct Child {
    std::string name;
    std::vector<std::string> argv;
    std::string address;  // host:port of its gRPC server
    std::string health_address;
    std::string metrics_address;        // empty: none
    std::vector<ChildProcess> process;  // one, or none while it waits to be restarted
    bool was_ready = false;             // since it was last started
    bool ever_ready = false;            // its flags and its model are right
    int deaths_before_ready = 0;        // in a row
    absl::Time restart_at = absl::InfinitePast();
  };
  LocalCluster() = default;
  // The children with their arguments, none of them started.
  static absl::StatusOr<LocalCluster> Prepare(const LocalClusterOptions& options,
                                              const std::vector<WorkerCores>& division);
  static absl::StatusOr<Child> MakeWorker(const LocalClusterOptions& options, int index,
                                          const WorkerCores& cores);
  static absl::StatusOr<Child> MakeRouter(const LocalClusterOptions& options,
                                          const std::vector<Child>& workers);
  absl::Status ServeMetrics(const std::string& listen);
  absl::Status PollChild(Child& child, absl::Time now);

  CpuClaims claims_;             // until the workers have ended
  std::vector<Child> children_;  // the router is the last
  std::unique_ptr<MetricsServer> metrics_;
  bool ready_ = false;
};

}  // namespace baton
