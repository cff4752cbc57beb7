// Prometheus metrics of the router, besides those of every server.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/net/metrics.h"
#include "router/dispatch/admission.h"
#include "router/metrics/request_metrics.h"
#include "router/metrics/request_observer.h"
#include "router/metrics/worker_series.h"
#include "router/placement/placement.h"
#include "router/request/request_machine.h"

namespace baton {

// Borrows Metrics and Admission. SetUp and all below it: on the loop's thread only.
class RouterMetrics final : public RequestObserver {
 public:
  RouterMetrics(Metrics& metrics, const Admission& admission);

  // From any thread: a request that was refused, at the door or before it had a worker.
  void Refused(const absl::Status& status);
  // How many were refused, by reason, such as "QUEUE_FULL"; from any thread.
  std::map<std::string, uint64_t> refusals();

  // Whether the worker may be used; Selected counts that it was given an attempt.
  void SetUp(const std::string& worker, const std::string& role, bool up);
  // The worker failed in a row and is given one request at a time.
  void SetCircuitOpen(const std::string& worker, const std::string& role, bool open);
  // A decode worker found wrong KV in what the prefill worker pushed.
  void SetQuarantined(const std::string& worker, const std::string& role, bool quarantined);
  // Sets the number of pages of the worker's prefix cache that placement knows.
  void SetPrefixPages(const std::string& worker, const std::string& role, size_t pages);
  void Selected(const std::string& worker, const std::string& role, PlacementPolicy policy);
  // A hand-off has failed on the link between the two workers; `fault` is one of kPush...
  // (worker_status.h).
  void LinkFailed(const std::string& prefill, const std::string& decode, const std::string& fault);
  // The worker was removed: its series end some time later (worker_series.h).
  void WorkerLeft(const std::string& worker, const std::string& role);
  // To be called several times a second.
  void Tick(absl::Time now) { workers_.Tick(now); }
  // What the load of this router needs of a role's workers. A number that is not known yet is not
  // given, and there is no gauge of it before it was given once.
  void SetNeeded(const std::string& role, double workers);
  void SetAdvised(const std::string& role, double workers);
  void SetBalanced(const std::string& role, double workers);

  // Streams whose client does not keep up, and requests that have not ended. The getters: from any
  // thread.
  int64_t behind() const { return behind_.load(std::memory_order_relaxed); }
  int64_t running() const { return running_.load(std::memory_order_relaxed); }
  void Behind(int delta) { behind_.fetch_add(delta, std::memory_order_relaxed); }
  void Running(int delta) { running_.fetch_add(delta, std::memory_order_relaxed); }
  // Counts the tokens that the event brought.
  void Handled(const RequestMachine& machine, const RequestEvent& event, Seen& seen,
               absl::Time now) override;
  void Ended(const RequestMachine& machine, const absl::Status& status,
             const std::string& finish_reason, absl::Time now);
  // An attempt follows one that ended with `failure`.
  void Retried(const absl::Status& failure);
  void Disconnected() { requests_.Disconnected(); }

 private:
  void CountRefusal(const absl::Status& status);
  using RoleGauges = std::map<std::string, std::atomic<double>>;  // by role
  void Set(RoleGauges& gauges, const char* name, const char* help, const std::string& role,
           double value);

  Metrics& metrics_;
  std::atomic<int64_t> running_ = 0;
  std::atomic<int64_t> behind_ = 0;
  RequestMetrics requests_;
  WorkerSeries workers_;
  RoleGauges needed_, advised_, balanced_;
  absl::Mutex refusals_mutex_;
  std::map<std::string, Counter> refusals_ ABSL_GUARDED_BY(refusals_mutex_);  // by reason
};

}  // namespace baton
