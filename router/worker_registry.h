// The workers: one Watch stream each, what they last said, whether they may be used.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/rpc/channel.h"
#include "common/rpc/health.h"
#include "common/rpc/limits.h"
#include "router/calls.h"
#include "router/event_loop.h"
#include "router/fleet_view.h"
#include "router/placement.h"
#include "router/worker_targets.h"

namespace baton {

// "prefill" or "decode".
std::string RoleName(internal::v1::WorkerRole role);

// One target and the worker behind it. A worker that restarts gets a new id.
struct Worker {
  WorkerTarget target;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<internal::v1::WorkerService::Stub> watch_stub;
  std::unique_ptr<internal::v1::PrefillService::Stub> prefill_stub;
  std::unique_ptr<internal::v1::DecodeService::Stub> decode_stub;
  std::unique_ptr<StreamingCall<internal::v1::WatchResponse>> watch;  // null: none is open

  uint64_t id = 0;  // 0: nothing was heard of it, or it was given up
  internal::v1::WorkerInfo info;
  std::string identity;  // serialised
  std::string problem;   // why it is never used; empty: nothing is wrong
  internal::v1::WorkerState state = internal::v1::WORKER_STATE_UNSPECIFIED;
  internal::v1::WorkerLoad load;
  ProgressJudge progress;
  absl::Time last_heard = absl::InfinitePast();
  absl::Time retry_at = absl::InfinitePast();
  absl::Duration backoff;
  bool wanted = true;  // among the targets
  bool up = false;     // as last said by on_up
  uint32_t own_sequences = 0;
  uint32_t own_prompts = 0;

  // It has had work and not advanced for as long.
  bool stuck() const { return progress.stuck() >= kProgressTimeout; }
  bool ready() const {
    return id != 0 && wanted && watch != nullptr && problem.empty() && !stuck() &&
           state == internal::v1::WORKER_STATE_READY;
  }
};

// On the loop's thread only. Destroyed after Close has called back.
class WorkerRegistry {
 public:
  struct Options {
    std::string tokenizer_digest;  // of the router: workers with another are never used
    Credentials credentials;
    // Loads, states or targets may have changed: placement may find more than before. At least
    // every 250 ms.
    std::function<void()> on_change;
    // Dead: not heard for kProgressTimeout, without progress for as long though it had work, or
    // another incarnation answers at its address.
    std::function<void(uint64_t worker_id, const absl::Status& why)> on_lost;
    std::function<void(const WorkerTarget&, bool)> on_up;  // may be used from now on, or no longer
  };
  WorkerRegistry(EventLoop& loop, FleetView& fleet, Options options);

  // Once, before all else.
  void Start() { Tick(); }
  void SetTargets(const std::vector<WorkerTarget>& targets);

  // Ready workers, in the order of their addresses.
  std::vector<WorkerSnapshot> Ready(internal::v1::WorkerRole role) const;
  // Null when it is gone.
  Worker* Find(uint64_t id);

  // Ends all streams; `closed` is called once none is left.
  void Close(std::function<void()> closed);

 private:
  void Tick();
  void OpenWatch(Worker& worker);
  void Heard(Worker& worker, const internal::v1::WatchResponse& message);
  void TakeInfo(Worker& worker, const internal::v1::WorkerInfo& info);
  void WatchEnded(Worker& worker, const absl::Status& status);
  void JudgeProgress(Worker& worker, const internal::v1::WatchResponse& message);
  void Lose(Worker& worker, const absl::Status& why);
  void DropUnwanted();
  void Publish();

  EventLoop& loop_;
  FleetView& fleet_;
  const Options options_;
  std::map<WorkerTarget, std::unique_ptr<Worker>> workers_;
  uint64_t next_id_ = 1;
  EventLoop::Timer tick_;
  std::function<void()> closed_;  // set by Close
};

}  // namespace baton
