#include "client/serve_command.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "absl/time/clock.h"

#include "client/signal_watcher.h"
#include "common/base/log.h"

namespace baton {

int ServeCommand(const LocalClusterOptions& options, absl::Duration shutdown_timeout) {
  std::atomic<int> signals_seen = 0;
  const SignalWatcher signals([&signals_seen](int) {
    if (++signals_seen > 1) _exit(1);  // the second one means at once; the children go with us
  });

  auto cluster = LocalCluster::Start(options);
  if (!cluster.ok()) {
    LogError("{}", std::string(cluster.status().message()));
    return 2;
  }
  bool announced = false;
  while (signals_seen == 0) {
    if (const absl::Status status = cluster->Poll(); !status.ok()) {
      LogError("{}", std::string(status.message()));
      return 2;
    }
    if (cluster->ready() && !announced) {
      std::printf("ready: grpc://%s\n", cluster->address().c_str());
      std::fflush(stdout);
      announced = true;
    }
    absl::SleepFor(absl::Milliseconds(announced ? 100 : 20));
  }
  LogInfo("stopping; running requests have {} to finish", absl::FormatDuration(shutdown_timeout));
  return cluster->Stop(shutdown_timeout) ? 0 : 1;
}

}  // namespace baton
