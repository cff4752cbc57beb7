// What the process says about itself to probes: has it started, is it alive, is it ready.
//
// gRPC health services: "startup" (serving once the first SetState(kReady) was called), "liveness"
// (the engine advances), "readiness" (ready, advancing and not draining), "" and every service's
// full name as "readiness"; and those of Options::conditions.
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

namespace baton {

// Of a router: every worker that it was told of is ready. What it serves may need fewer.
inline constexpr char kAllWorkersHealth[] = "all_workers";

enum class ServerState { kStarting, kReady, kDraining };

// An engine's sign of life. A server without an engine reports nothing runnable.
struct ProgressSample {
  uint64_t progress = 0;            // advances while it works
  uint64_t runnable_sequences = 0;  // 0: it need not advance
};

// Judges progress by samples alone. Not thread-safe.
class ProgressJudge {
 public:
  void Observe(const ProgressSample& sample, absl::Time now);
  // How long it has had work and not advanced, at the last sample.
  absl::Duration stuck() const { return stuck_; }

 private:
  std::optional<uint64_t> progress_;
  absl::Time since_;
  absl::Duration stuck_ = absl::ZeroDuration();
};

// Thread-safe. A thread of its own takes samples every 250 ms: not ready after 2.5 s without
// progress, not alive after 10 s.
class Health {
 public:
  // The functions may be empty; they are called on Health's thread and must not block.
  struct Options {
    std::function<ProgressSample()> progress{};
    std::function<bool()> ready{};                              // a condition besides the state
    std::vector<std::string> services{};                        // full names
    std::map<std::string, std::function<bool()>> conditions{};  // further services, by name
  };
  explicit Health(Options options);
  ~Health();
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;

  void SetState(ServerState state);
  ServerState state() const;
  // As last published: what "readiness" and "liveness" answer.
  bool ready() const;
  bool live() const;
  // Samples and publishes now; returns ready().
  bool Refresh();

  // Servers to tell from now on; borrowed until Detach or the end of this.
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
  std::map<std::string, bool> conditions_ ABSL_GUARDED_BY(mutex_);  // as they last were
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  ProgressJudge judge_ ABSL_GUARDED_BY(mutex_);
  std::vector<grpc::HealthCheckServiceInterface*> attached_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace baton
