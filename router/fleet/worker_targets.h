// Where workers are looked for: addresses given by flags, DNS names polled, a file read again and
// again.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/internal/v1/worker.pb.h"
#include "common/base/periodic_thread.h"

namespace baton {

struct WorkerTarget {
  internal::v1::WorkerRole role = internal::v1::WORKER_ROLE_UNSPECIFIED;
  std::string address;  // host:port
  friend auto operator<=>(const WorkerTarget&, const WorkerTarget&) = default;
};

struct WorkerSources {
  std::vector<std::string> prefill;  // host:port or dns:///name:port, as NormalAddress makes them
  std::vector<std::string> decode;
  std::string workers_file;  // empty: none
};

// A line each: "prefill ADDRESS" or "decode ADDRESS"; empty lines and what follows a # do not
// count. Errors name the line.
absl::StatusOr<std::vector<WorkerTarget>> ParseWorkersFile(const std::string& path,
                                                           const std::string& content);

// Looks everything up once. Sorted, each target once. What cannot be looked up now keeps its place
// in `known`, and is said once in the log.
class TargetLookup {
 public:
  explicit TargetLookup(WorkerSources sources) : sources_(std::move(sources)) {}
  std::vector<WorkerTarget> Now();

 private:
  void AddSource(internal::v1::WorkerRole role, const std::string& source,
                 std::vector<WorkerTarget>* targets);
  void AddFile(std::vector<WorkerTarget>* targets);
  void Report(const std::string& source, const absl::Status& status);

  const WorkerSources sources_;
  // By source: as last looked up, for as long as looking up fails, and what failed.
  struct Known {
    std::vector<WorkerTarget> targets;
    std::string problem;
  };
  std::vector<std::pair<std::string, Known>> known_;
  Known& KnownOf(const std::string& source);
};

// A thread that looks up every `interval` and reports what it found.
class TargetPoller {
 public:
  // `report` is called on the poller's thread, first at once.
  TargetPoller(WorkerSources sources, absl::Duration interval,
               std::function<void(std::vector<WorkerTarget>)> report);

 private:
  PeriodicThread thread_;
};

}  // namespace baton
