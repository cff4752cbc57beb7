// The workers: one Watch stream each, what they last said, whether they may be used.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "baton/internal/v1/decode.grpc.pb.h"
#include "baton/internal/v1/prefill.grpc.pb.h"
#include "baton/internal/v1/worker.grpc.pb.h"
#include "common/net/channel.h"
#include "common/net/health.h"
#include "common/rpc/limits.h"
#include "router/calls/event_loop.h"
#include "router/calls/worker_calls.h"
#include "router/fleet/circuit_breaker.h"
#include "router/fleet/fleet_view.h"
#include "router/fleet/worker_targets.h"
#include "router/placement/link_estimates.h"
#include "router/placement/placement.h"
#include "router/placement/prefix_index.h"
#include "router/placement/ready_workers.h"

namespace baton {

// "prefill" or "decode".
std::string RoleName(internal::v1::WorkerRole role);

// One target and the worker behind it. A worker that restarts gets a new id.
struct Worker {
  WorkerTarget target;
  uint32_t slot = 0;  // names this target's place in the prefix index
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<internal::v1::WorkerService::Stub> watch_stub;
  std::unique_ptr<internal::v1::PrefillService::Stub> prefill_stub;
  std::unique_ptr<internal::v1::DecodeService::Stub> decode_stub;
  std::unique_ptr<StreamingCall<internal::v1::WatchResponse>> watch;  // null: none is open

  uint64_t id = 0;  // 0: nothing was heard of it, or it was given up
  internal::v1::WorkerInfo info;
  WorkerSnapshot seen;  // what placement knows; its id is 0 while `id` is
  Hash128 prefix_root;  // where its prefixes begin
  CircuitBreaker breaker;
  std::string problem;  // why it is never used; empty: nothing is wrong
  internal::v1::WorkerState state = internal::v1::WORKER_STATE_UNSPECIFIED;
  double measured_tokens_per_second = 0;  // of prompts that it computed; 0: none yet
  ProgressJudge progress;
  absl::Time last_heard = absl::InfinitePast();
  absl::Time retry_at = absl::InfinitePast();
  absl::Duration backoff;
  bool wanted = true;         // among the targets
  bool up = false;            // as last said by on_up
  bool circuit_open = false;  // as last said by on_circuit
  bool listed = false;        // among the ready workers that placement sees

  // It has had work and not advanced for as long.
  bool stuck() const { return progress.stuck() >= kProgressTimeout; }
  bool ready() const {
    return id != 0 && wanted && watch != nullptr && problem.empty() && !stuck() &&
           state == internal::v1::WORKER_STATE_READY;
  }
};

// What an attempt takes of its workers, from Take until GiveBack.
struct WorkerShare {
  uint64_t prefill = 0;  // ids; 0: none
  uint64_t decode = 0;
  uint64_t prefill_begun = 0;  // from their breakers
  uint64_t decode_begun = 0;
  uint32_t prompt_tokens = 0;
  uint32_t computed_tokens = 0;  // of those, that whoever prefills does not hold
  bool prompt_waits = false;     // the prompt is not computed
  bool postponed = false;        // and its decode worker has no memory for it so far
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
    // Its circuit breaker is open from now on, or no longer. Null: nobody wants to know.
    std::function<void(const WorkerTarget&, bool)> on_circuit;
    // So many pages of its prefix cache are known. Null: nobody wants to know.
    std::function<void(const WorkerTarget&, size_t)> on_pages;
  };
  WorkerRegistry(EventLoop& loop, FleetView& fleet, Options options);

  // Once, before all else.
  void Start() { Tick(); }
  void SetTargets(const std::vector<WorkerTarget>& targets);

  // Ready workers that a request of that prompt may be given to.
  ReadyWorkers::Candidates Choose(const WorkerNeeds& needs, absl::Span<const int32_t> prompt,
                                  const std::string& salt, const PlacementOptions& options,
                                  uint64_t turn) const;
  LinkEstimate Link(uint64_t prefill, uint64_t decode) const;
  // Null when it is gone.
  Worker* Find(uint64_t id);

  // What the chosen workers have before them. Each does nothing for workers that are gone.
  void Take(WorkerShare& share);
  // The decode worker has no memory for the prompt so far; its prefill worker gets it after all.
  void PromptPostponed(WorkerShare& share);
  void PromptComes(WorkerShare& share);
  void PromptComputed(WorkerShare& share);
  void GiveBack(WorkerShare& share);

  // What calls to workers have shown. `begun` is from their breaker.
  void Served(uint64_t worker_id);
  void Failed(uint64_t worker_id, uint64_t begun, const absl::Status& status);
  void Prefilled(uint64_t worker_id, uint32_t tokens, absl::Duration compute);
  void HandedOff(uint64_t prefill, uint64_t decode, const internal::v1::PrefillFinished& finished);
  void HandOffFailed(uint64_t prefill, uint64_t decode);

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
  void TakeLoad(Worker& worker, const internal::v1::WorkerLoad& load);
  void TakePages(Worker& worker, const internal::v1::PrefixDelta& delta);
  void ForgetPages(Worker& worker);
  void SetId(Worker& worker, uint64_t id);
  // Whether it is ready may have changed.
  void Relist(Worker& worker);
  // What it takes may have changed.
  void Update(Worker& worker);

  EventLoop& loop_;
  FleetView& fleet_;
  const Options options_;
  std::map<WorkerTarget, std::unique_ptr<Worker>> workers_;
  absl::flat_hash_map<uint64_t, Worker*> by_id_;
  absl::flat_hash_map<uint32_t, Worker*> by_slot_;
  ReadyWorkers ready_;
  PrefixIndex prefixes_;
  std::map<Hash128, int> roots_;  // of the ready workers: how many
  LinkEstimates links_;
  uint64_t next_id_ = 1;
  uint32_t next_slot_ = 1;
  EventLoop::Timer tick_;
  std::function<void()> closed_;  // set by Close
};

}  // namespace baton
