// A prefill worker of the simulated cluster: a real block pool, prefix cache and SendMachines,
// memory with KV in it, and an engine that takes its time.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/network/network.h"
#include "tests/simulation/prefill_worker/prefill_engine.h"
#include "tests/simulation/prefill_worker/prefill_pushes.h"
#include "tests/simulation/worker_core.h"

namespace baton {

// The process as a whole: answers the router's Prefill calls, and has what strikes or asks all of
// its parts.
class PrefillSim {
 public:
  PrefillSim(Sim& sim, Network& network, ControlNetwork& control, int index);
  ~PrefillSim();

  WorkerCore& core() { return core_; }
  SimProcess& process() { return core_.process(); }
  // The network's.
  void Answer(Network::StreamId stream, const std::string& bytes) { pushes_.Answer(stream, bytes); }
  void Ended(Network::StreamId stream, const absl::Status& status) {
    pushes_.Ended(stream, status);
  }

  // Faults.
  void Crash();
  void Restart();
  void Squeeze() { blocks_.Squeeze(); }
  void Relax();

  // Ends what runs, as a worker does whose time to drain is up.
  void EndAll();

  bool idle() const { return table_.calls().empty() && waiting_.empty() && rpcs_.empty(); }
  // Whether nothing is left of any attempt.
  void CheckAtRest();
  // The tokens of a prompt that its prefix cache holds.
  int HeldTokens(const std::vector<int32_t>& prompt) const { return blocks_.HeldTokens(prompt); }

 private:
  void Serve();
  WorkerCore::Load Load() const;
  void Received(ControlNetwork::CallId rpc, const internal::v1::PrefillRequest& request);
  void Cancelled(ControlNetwork::CallId rpc);
  void GiveSigns();
  void StartWaiting();
  void PromptDone(SimAttemptId id);
  void PushFinished(SimAttemptId id, const absl::Status& status);
  void MaybeFinish(SimAttemptId id);
  void EndCall(SimPrefillCall& call, const absl::Status& status);
  void GiveBlocksBack(SimPrefillCall& call);

  Sim& sim_;
  ControlNetwork& control_;
  PrefillBlocks blocks_;
  WorkerCore core_;
  PrefillCallTable table_;
  PrefillPushes pushes_;
  PrefillEngine engine_;
  std::deque<SimAttempt> waiting_;                       // for blocks
  std::map<ControlNetwork::CallId, SimAttemptId> rpcs_;  // calls that have not ended
};

}  // namespace baton
