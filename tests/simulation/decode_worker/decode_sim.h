// A decode worker of the simulated cluster: a real fence, block pool, prefix cache and
// ReceiveMachines, memory that they write to, and an engine that decodes what was committed.
#pragma once

#include <string>
#include <vector>

#include "tests/simulation/decode_worker/decode_calls.h"
#include "tests/simulation/network/network.h"
#include "tests/simulation/worker_core.h"

namespace baton {

// The process as a whole: puts its parts together, and has what strikes or asks all of them.
class DecodeSim {
 public:
  DecodeSim(Sim& sim, Network& network, ControlNetwork& control, int index);
  ~DecodeSim();

  WorkerCore& core() { return core_; }
  SimProcess& process() { return core_.process(); }
  // The network's.
  void Request(Network::StreamId stream, const std::string& bytes) {
    pushes_.Request(stream, bytes);
  }
  void Lost(Network::StreamId stream) { pushes_.Lost(stream); }

  // Faults.
  void Crash();
  void Restart();
  void Squeeze() { blocks_.Squeeze(); }
  void Relax();

  // Ends what runs, as a worker does whose time to drain is up.
  void EndAll() { calls_.EndAll(); }

  bool idle() const {
    return table_.calls().empty() && pushes_.streams() == 0 && blocks_.retained().size() == 0;
  }
  void CheckAtRest();
  // The tokens of a prompt that its prefix cache holds.
  int HeldTokens(const std::vector<int32_t>& prompt) const;

 private:
  DecodePushes::Calls CallsOfPushes();
  void Serve(ControlNetwork& control);
  WorkerCore::Load Load() const;

  Sim& sim_;
  DecodeBlocks blocks_;
  WorkerCore core_;
  DecodeCallTable table_;
  DecodePushes pushes_;
  DecodeAudit audit_;
  DecodeEngine engine_;
  LocalPrefill local_prefill_;
  DecodeCalls calls_;
};

}  // namespace baton
