// What both kinds of simulated workers have: a process, an engine that takes its time, may be slow
// and may hang, and the Watch streams that tell the router.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "baton/internal/v1/worker.pb.h"
#include "common/kv/prefix_pages.h"
#include "tests/simulation/network/control_network.h"

namespace baton {

inline constexpr int kSimChunk = 64;          // tokens of a prompt that are computed at once
inline constexpr size_t kSimMostWaiting = 8;  // calls that wait for blocks

class WorkerCore {
 public:
  struct Load {
    uint32_t runnable = 0;
    uint32_t waiting = 0;
    uint32_t running = 0;
    uint32_t waiting_tokens = 0;
    uint32_t free_blocks = 0;
    std::set<int> computed;  // requests that its engine has
  };
  // `pages`, of the worker's prefix cache, is asked for while the process is up.
  WorkerCore(Sim& sim, ControlNetwork& network, SimWorkerId id, int block_size,
             std::function<Load()> load, std::function<PrefixPages&()> pages)
      : sim_(sim),
        network_(network),
        id_(id),
        block_size_(block_size),
        load_(std::move(load)),
        pages_(std::move(pages)),
        most_pages_(static_cast<size_t>(sim.random.Between(4, 64))),
        process_(sim) {}

  SimProcess& process() { return process_; }
  SimWorkerId id() const { return id_; }

  void Boot();  // as a new incarnation
  void Crash();

  // `give` tells all callers that the worker still has their calls. It is called every few seconds
  // while the engine does not hang.
  void SetGiveSigns(std::function<void()> give) { give_signs_ = std::move(give); }

  // A step of the engine.
  void Work(Micros time, std::function<void()> step);
  void Progressed() { ++progress_; }
  // The engine takes so long for `step` that nothing else goes on. Then `step` follows.
  void StandStill(std::function<void()> step);

  // Faults.
  void Hang();
  void GoOn();
  void SetSlowness(int factor) { slowness_ = factor; }
  void SetDraining(bool draining);
  // From its next start on.
  void ServeOtherModel(bool other) { other_model_ = other; }
  // What it computes from here on is wrong where it is pushed, until it stops or starts again.
  void SetForging(bool forging) {
    forging_ = forging;
    has_forged_ |= forging;
  }
  // A decode worker tells who pushed wrong KV, at once or with its next report.
  void SetQuarantined(std::vector<std::string> pushers);
  // Takes whatever comes and then fails it.
  void SetFailing(bool failing) { failing_ = failing; }

  bool hung() const { return hung_; }
  bool draining() const { return draining_; }
  bool failing() const { return failing_; }
  bool forging() const { return forging_; }
  // What its process holds may be forged.
  bool has_forged() const { return has_forged_; }
  const std::vector<std::string>& quarantined() const { return quarantined_; }
  bool serves_other_model() const { return serves_other_model_; }
  uint32_t runnable() const { return std::max(load_().runnable, stopped_runnable_); }
  const internal::v1::ModelIdentity& identity() const { return info_.identity(); }
  uint64_t incarnation() const { return info_.incarnation(); }
  // What the names of its prefixes begin with.
  std::string prefix_identity() const;

  void Watched(ControlNetwork::CallId call);
  void WatchOver(ControlNetwork::CallId call) { watchers_.erase(call); }
  bool IsWatch(ControlNetwork::CallId call) const { return watchers_.count(call) > 0; }

 private:
  struct Watcher {  // as common/worker/worker_service.cc has it
    PrefixPages::Position position;
    uint64_t version = 0;  // version of the last message about pages
  };
  void Tick();
  // Notes which requests are there while the engine does not advance.
  void NoteStandstill(const Load& load) const;
  void Tell(ControlNetwork::CallId call, bool first);
  void AddPages(ControlNetwork::CallId call, internal::v1::WatchResponse& message);

  Sim& sim_;
  ControlNetwork& network_;
  const SimWorkerId id_;
  const int block_size_;
  const std::function<Load()> load_;
  const std::function<PrefixPages&()> pages_;
  const size_t most_pages_;  // in a message
  SimProcess process_;
  internal::v1::WorkerInfo info_;
  std::function<void()> give_signs_;
  int ticks_ = 0;
  uint64_t progress_ = 0;
  bool hung_ = false;
  // Runnable sequences when the engine stopped: it does not count anew while it hangs.
  uint32_t stopped_runnable_ = 0;
  bool draining_ = false;
  bool failing_ = false;
  bool forging_ = false;
  bool has_forged_ = false;
  std::vector<std::string> quarantined_;
  bool other_model_ = false;
  bool serves_other_model_ = false;
  int slowness_ = 1;
  std::vector<std::function<void()>> stalled_;  // steps of an engine that hangs
  std::map<ControlNetwork::CallId, Watcher> watchers_;
};

}  // namespace baton
