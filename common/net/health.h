// The health of a process, as probes ask for it: has it started, is it alive, is it ready.
//
// The services of grpc.health.v1:
// - "startup" is serving after the first SetState(kReady);
// - "liveness" is serving while the engine advances and the process can be reached;
// - "readiness" is serving while the process is ready, advances and does not drain;
// - "" and the full name of each service are the same as "readiness";
// - each of Options::conditions is serving while its function returns true.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/health_check_service_interface.h"

#include "common/base/timed_wait.h"

namespace baton {

// A condition of routers: every worker that the router knows is ready. "readiness" may need
// fewer workers.
inline constexpr char kAllWorkersHealth[] = "all_workers";

enum class ServerState { kStarting, kReady, kDraining };

// An engine's sign of life. A server without an engine reports no runnable sequences.
struct ProgressSample {
  uint64_t progress = 0;            // a count that grows while the engine works
  uint64_t runnable_sequences = 0;  // 0: the engine need not advance
};

// Judges progress by the samples only. Not thread-safe.
class ProgressJudge {
 public:
  void Observe(const ProgressSample& sample, absl::Time now);
  // How long, at the last sample, the engine had had work and not advanced.
  absl::Duration stuck() const { return stuck_; }

 private:
  std::optional<uint64_t> progress_;
  absl::Time since_;
  absl::Duration stuck_ = absl::ZeroDuration();
};

// Thread-safe. Its own thread takes a sample every 250 ms. The process is not ready after 2.5 s
// without progress, and not alive after 10 s.
class Health {
 public:
  // The functions may be empty. They are called on Health's thread and on those that call SetState
  // and Refresh, and must not block.
  struct Options {
    std::function<ProgressSample()> progress{};
    std::function<bool()> live{};                               // further condition of "liveness"
    std::function<bool()> ready{};                              // further condition of "readiness"
    std::vector<std::string> services{};                        // full names of the gRPC services
    std::map<std::string, std::function<bool()>> conditions{};  // further health services, by name
  };
  explicit Health(Options options);
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  void SetState(ServerState state);
  ServerState state() const;
  // The last published answers of "readiness" and "liveness".
  bool ready() const;
  bool live() const;
  // Takes a sample and publishes it now; returns ready().
  bool Refresh();

  // Publishes to `service` from now on. Borrows it until Detach or the end of this object.
  void Attach(grpc::HealthCheckServiceInterface* service);
  void Detach(grpc::HealthCheckServiceInterface* service);

 private:
  void Publish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();

  const Options options_;
  mutable absl::Mutex mutex_;
  ServerState state_ ABSL_GUARDED_BY(mutex_) = ServerState::kStarting;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool live_ ABSL_GUARDED_BY(mutex_) = true;
  std::map<std::string, bool> conditions_ ABSL_GUARDED_BY(mutex_);  // values at the last sample
  ProgressJudge judge_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::HealthCheckServiceInterface*> attached_ ABSL_GUARDED_BY(mutex_);
  TimedNotification stop_;
  std::thread thread_;
};

}  // namespace baton
