// Keeps a Watch stream to each worker, and decides by it whether the worker may be used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/worker.pb.h"
#include "router/calls/event_loop.h"
#include "router/calls/worker_rpcs.h"
#include "router/fleet/expected_model.h"
#include "router/fleet/fleet.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/worker.h"
#include "router/fleet/worker_targets.h"

namespace baton {

// Owns the workers, reports them to the fleet, and publishes a summary of them to the view;
// borrows both. On the loop's thread only. Destroyed after Close has called back.
class WorkerRegistry {
 public:
  struct Options {
    ExpectedModel model;  // the router's: workers of another are not used
    // Workers of other models with the same tokenizer are used too.
    bool allow_mixed_revisions = false;
    ConnectWorker connect;
    bool expose_workers = false;  // the summary names workers as they name themselves
    // Hosts that decode workers may advertise in addition to their own (CheckHostPattern).
    std::vector<std::string> advertised_hosts{};
    // Loads, states or targets may have changed: placement may find more than before. Called at
    // least every 250 ms.
    std::function<void()> on_change;
    // The worker is dead: it was silent for kProgressTimeout, made no progress for as long
    // though it had work, or another incarnation answers at its address.
    std::function<void(uint64_t worker_id, const absl::Status& why)> on_lost;
    // The worker has had work and has not advanced since `since`. Called just before `on_lost`. Not
    // called for a worker that is silent or was restarted. Null: not reported.
    std::function<void(const Worker&, absl::Time since)> on_stood_still = nullptr;
    // The worker may be used from now on, or no longer.
    std::function<void(const WorkerTarget&, bool)> on_up;
    // A decode worker has quarantined the prefill worker, or no longer. May be null.
    std::function<void(const WorkerTarget&, bool)> on_quarantine;
    // Receives the number of known pages of the worker's prefix cache. May be null.
    std::function<void(const WorkerTarget&, size_t)> on_pages;
    // The target was removed and its worker is forgotten. Null: not reported.
    std::function<void(const WorkerTarget&)> on_gone = nullptr;
    // Called every 250 ms, after the workers were judged. May be null.
    std::function<void(const WorkersByTarget&)> on_tick = nullptr;
  };
  WorkerRegistry(EventLoop& loop, Fleet& fleet, FleetView& view, Options options);

  // To be called once, before all else.
  void Start() { Tick(); }
  // REQUIRES: `targets` is sorted. A worker whose name vanished stays while it answers. A worker
  // that does not answer is called anew at once when the addresses of its name change.
  void SetTargets(const std::vector<WorkerTarget>& targets, const TargetNames& names = {});
  // Ends all streams; `closed` is called once none is left.
  void Close(std::function<void()> closed);

 private:
  void Tick();
  void OpenWatch(Worker& worker);
  void RetryLater(Worker& worker);
  // Logs why the worker is not reached or not used, if that is due.
  void LogReach(Worker& worker) const;
  void HurryWatch(Worker& worker);
  void Heard(Worker& worker, const internal::v1::WatchResponse& message);
  void EndFlood(Worker& worker);
  void TakeInfo(Worker& worker, const internal::v1::WorkerInfo& info);
  // Notes where the worker runs, and takes the address for pushes to a decode worker. Returns an
  // error for the log if the worker may not have that address, and notes the problem.
  absl::Status TakePushAddress(Worker& worker, const internal::v1::WorkerInfo& info) const;
  // Decides which weights are used, and by that which workers. Without effect if workers of several
  // models may be used.
  void JudgeWeights();
  void NameUnlikeWorkers(Worker& worker) const;
  // Logs the pairs with the worker that have its model and between which no push gets through.
  void NameWhatCannotReach(Worker& worker) const;
  void JudgeQuarantines();
  void TakePages(Worker& worker, const internal::v1::PrefixDelta& delta);
  void ForgetPages(Worker& worker);
  void JudgeProgress(Worker& worker, const internal::v1::WatchResponse& message);
  void WatchEnded(Worker& worker, const absl::Status& status);
  void Lose(Worker& worker, const absl::Status& why);
  void DropUnwanted();
  void Publish();

  EventLoop& loop_;
  Fleet& fleet_;
  FleetView& view_;
  const Options options_;
  WorkersByTarget workers_;
  std::string weights_;  // digest of the weights that are used; empty: none are known
  EventLoop::Timer tick_;
  std::function<void()> closed_;  // set by Close
};

}  // namespace baton
