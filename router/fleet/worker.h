// One worker as the router knows it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"

#include "baton/internal/v1/worker.pb.h"
#include "common/base/hash.h"
#include "common/net/health.h"
#include "common/rpc/limits.h"
#include "router/calls/worker_calls.h"
#include "router/calls/worker_rpcs.h"
#include "router/fleet/busy_time.h"
#include "router/fleet/circuit_breaker.h"
#include "router/fleet/log_budget.h"
#include "router/fleet/reachability.h"
#include "router/fleet/watch_budget.h"
#include "router/fleet/worker_targets.h"
#include "router/placement/placement.h"

namespace baton {

// What this router has seen the worker do, counted from its introduction on.
struct WorkerTraffic {
  uint64_t output_tokens = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t hand_offs = 0;      // each is counted at both of its workers
  uint64_t hand_off_bytes = 0;
  absl::Duration exposed_transfer{};  // sum over the hand-offs
  // Prompts whose time the worker has reported, and that time: all but the shortest.
  uint64_t timed_prompt_tokens = 0;
  absl::Duration prompt_compute{};
};

// One target and the worker behind it. A worker that restarts gets a new id. Owned by
// WorkerRegistry, touched on the loop's thread only.
struct Worker {
  WorkerTarget target;
  uint32_t slot = 0;                 // names this target's place in the prefix index
  std::unique_ptr<WorkerRpcs> rpcs;  // null: its address may not be called
  std::unique_ptr<StreamingCall<internal::v1::WatchResponse>> watch;  // null: no stream is open

  uint64_t id = 0;  // 0: the worker has not introduced itself, or was given up
  internal::v1::WorkerInfo info;
  std::string peer_id;       // the SPIFFE id in its certificate; empty without TLS
  std::string push_address;  // decode: as FindPushAddress returned it; empty: the target's
  // decode: only prefill workers that run on the router's machine reach that address
  bool takes_pushes_here_only = false;
  bool runs_here = true;  // whether it is on the router's machine, by its addresses
  // The address of another target at which this same worker is used; empty: this one is used.
  // REQUIRES: id is 0 unless it is empty.
  std::string spare_of;
  WorkerSnapshot seen;  // what placement knows; its id is 0 while `id` is
  Hash128 prefix_root;  // where the chain of its prefix hashes begins
  CircuitBreaker breaker;
  std::string problem;                // why the worker is never used; empty: nothing is wrong
  bool other_weights = false;         // `problem` is that other weights are used; it lasts as long
  std::set<std::string> quarantines;  // decode: pushers whose KV proved to be wrong, as it says
  std::string quarantined_by;         // prefill: a decode worker that reports this; empty: none
  internal::v1::WorkerState state = internal::v1::WORKER_STATE_UNSPECIFIED;
  internal::v1::WorkerLoad load;    // as last reported
  uint32_t runnable_sequences = 0;  // as last reported: those that it could compute at once
  WorkerTraffic traffic;
  BusyTime prompt_time;                   // in which it has a prompt of this router to compute
  double measured_tokens_per_second = 0;  // speed of its prefills; 0: none was measured yet
  ProgressJudge progress;
  absl::Time last_heard = absl::InfinitePast();
  absl::Time retry_at = absl::InfinitePast();
  absl::Duration backoff;
  WatchBudget budget;
  LogBudget log_budget;
  Reachability reach;
  bool flooding = false;  // its stream was cancelled because it went beyond that
  // The worker is among the targets, or its name vanished and it still answers.
  bool wanted = true;
  TargetName name;            // what DNS says about the target
  bool moved = false;         // the name has other addresses than when `rpcs` were made
  bool up = false;            // `ready()` as last said by on_up
  bool circuit_open = false;  // the breaker's state as last said by on_circuit
  bool listed = false;        // the worker is among the ready workers that placement sees

  // Its name for clients: its own name or, unless `exposed`, its role and its id here.
  std::string told_name(bool exposed) const;
  // decode: host:port where prefill workers reach it
  const std::string& pushes_go_to() const {
    return push_address.empty() ? target.address : push_address;
  }
  // What decode workers call it in WatchResponse.quarantined_pushers.
  const std::string& pusher_key() const { return peer_id.empty() ? info.name() : peer_id; }
  // The worker has had work and not advanced for kProgressTimeout.
  bool stuck() const { return progress.stuck() >= kProgressTimeout; }
  bool ready() const {
    // tests/planted_bugs: worker_is_ready
    return id != 0 && wanted && watch != nullptr && problem.empty() && quarantined_by.empty() &&
           !stuck() && state == internal::v1::WORKER_STATE_READY;
  }
};

using WorkersByTarget = std::map<WorkerTarget, std::unique_ptr<Worker>>;

// Whether the prefill worker reaches the address at which the decode worker takes pushes, by
// their addresses.
bool Reaches(const Worker& prefill, const Worker& decode);
// Returns whether a line about the worker may be written to the log now, since its messages may cause
// as many as it likes. Logs how many were left out before.
bool MayLog(Worker& worker, absl::Time now);
// What placement knows of a worker by what it says of itself. Numbers that no worker has are cut.
WorkerSnapshot DescribeWorker(const internal::v1::WorkerInfo& info);
// The worker reports its load: what was given to it since the last report is in it. Cut as above.
void TakeLoad(const internal::v1::WorkerLoad& load, WorkerSnapshot& seen);

}  // namespace baton
