// The metrics that name a worker. A worker's series begin with its first value and end some time
// after it left, so that alerts can notice that it left.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/net/metrics.h"

namespace baton {

// Thread-safe. Must outlive the last scrape of the Metrics, which borrow it.
class WorkerSeries {
 public:
  // How long the series of a worker that left are shown, unless many leave (worker_series.cc).
  static constexpr absl::Duration kKeep = absl::Minutes(15);
  // Workers whose series are shown. A worker that left makes room for one that is there. Further
  // workers that are there wait until one of these has left.
  static constexpr size_t kMostWorkers = 1024;

  enum class Gauge { kUp, kCircuitOpen, kQuarantined, kPrefixPages };

  explicit WorkerSeries(Metrics& metrics);
  WorkerSeries(const WorkerSeries&) = delete;
  WorkerSeries& operator=(const WorkerSeries&) = delete;

  // `worker` is an address, `role` prefill or decode. A worker that left and is set again is back.
  void Set(Gauge gauge, const std::string& worker, const std::string& role, double value);
  // Counts a request that was given to the worker. `policy` is that of the router.
  void Selected(const std::string& worker, const std::string& role, const std::string& policy);
  // Counts a hand-off that failed between the two workers for that reason. Links beyond
  // kMostWorkers are counted together.
  void LinkFailed(const std::string& prefill, const std::string& decode, const std::string& reason);
  // The worker has left: from now on its gauges are 0, and kKeep from now its series end.
  void Left(const std::string& worker, const std::string& role);
  // Sets the time, and ends the series that are due. To be called several times a second.
  void Tick(absl::Time now);

 private:
  static constexpr size_t kGauges = 4;
  struct Series {
    std::array<std::optional<double>, kGauges> gauges{};
    std::optional<double> selected{};
    bool shown = false;
    absl::Time left = absl::InfiniteFuture();  // infinite: the worker is there
    bool has_left() const { return left != absl::InfiniteFuture(); }
  };
  using Key = std::pair<std::string, std::string>;  // worker and role
  using Map = std::map<Key, Series>;

  Series& Find(const std::string& worker, const std::string& role)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Map::iterator Erase(Map::iterator at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ShowOthers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<MetricSample> Samples(Gauge gauge) const;
  std::vector<MetricSample> Selections() const;
  std::vector<MetricSample> LinkFailures() const;

  mutable absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
  std::string policy_ ABSL_GUARDED_BY(mutex_);
  Map series_ ABSL_GUARDED_BY(mutex_);
  // By prefill worker, decode worker and reason. Those of a worker end with its series.
  std::map<std::array<std::string, 3>, double> link_failures_ ABSL_GUARDED_BY(mutex_);
  size_t shown_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;  // workers that left and whose series are shown
};

}  // namespace baton
